"""Calls of one request, taken as streams of one.

gRPC would wait for the request of such a call on a thread of its pool that nobody counts, for as long as a stranger
likes to send none: enough of them, and no agent would find a thread. Here they have places, and an end.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

import grpc

T = TypeVar("T")


class SingleRequests:
    """`most` calls at a time have a place, each until `left`. One whose request has not come within `silent_us` is
    ended by `look`."""

    def __init__(self, *, most: int, silent_us: int, clock_us: Callable[[], int]) -> None:
        self.most = most
        self._silent_us = silent_us
        self._clock_us = clock_us
        self._places = threading.Semaphore(most)
        self._lock = threading.Lock()
        self._awaited: dict[grpc.ServicerContext, int] = {}  # and since when

    @contextlib.contextmanager
    def place(self) -> Iterator[bool]:
        """Whether there is one, for as long as the block runs."""
        found = self._places.acquire(blocking=False)
        try:
            yield found
        finally:
            if found:
                self._places.release()

    def take(self, requests: Iterator[T], context: grpc.ServicerContext, *, none: T) -> T:
        """The request; `none` where the call is closed without one. Raises RpcError where the call ends meanwhile."""
        with self._lock:
            self._awaited[context] = self._clock_us()
        try:
            return next(requests, none)
        finally:
            with self._lock:
                del self._awaited[context]

    def look(self, now_us: int) -> None:
        """End the calls whose request does not come."""
        with self._lock:
            silent = [call for call, since_us in self._awaited.items() if now_us - since_us > self._silent_us]
        for call in silent:
            call.cancel()
