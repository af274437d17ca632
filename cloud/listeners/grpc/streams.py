"""The listener behind somebody else's gRPC server, which brings each stream as an async iterator of messages.

Everything about a stream happens on that server's event loop; replies come from any thread. A stream that is silent
for `silent_us` ends, and one older than `max_age_us` (with a tenth of chance, so that not all end at once) ends at
the next moment without a frame in work: its agent connects anew and is led to wherever there is room by then.
"""

import asyncio
import logging
import random
import threading
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from cloud.listeners.base import STOP_WITHIN_S
from cloud.listeners.grpc.hearing import hear
from cloud.listeners.grpc.stream_peer import StreamPeer
from protos.endpoint import Peer, Session
from protos.wire import envelope
from protos.wire.session import Error, Lane, RejectReason

log = logging.getLogger(__name__)

_LOOK_EVERY_S = 0.1
_OVER_AGE_US = 5_000_000  # most that an old stream is kept for the sake of its frames in work


class BusySession(Session, Protocol):
    """A session that says whether frames of it are in work."""

    @property
    def jobs(self) -> Collection[object]: ...


class StreamEndpoint(Protocol):
    """The service, as this listener sees it."""

    def open(self, peer: Peer) -> BusySession: ...

    def not_ready(self) -> Sequence[str]: ...


@dataclass(slots=True, eq=False)
class _Stream:
    peer: StreamPeer
    session: BusySession
    old_us: int | None  # from when on it may end, by the worker's clock

    def may_end(self, now_us: int) -> bool:
        """It is old and nothing of it is in work, or it is so old that this no longer matters."""
        if self.old_us is None or now_us < self.old_us:
            return False
        return not self.session.jobs or now_us >= self.old_us + _OVER_AGE_US


class StreamListener:
    """Implements `cloud.listeners.base.Listener`; bound by its server. `max_age_us` None: streams end when
    their agents do."""

    address = ""

    def __init__(
        self,
        endpoint: StreamEndpoint,
        *,
        clock_us: Callable[[], int],
        max_message_bytes: int = 8 << 20,
        max_queued: int = 256,
        max_peers: int = 1024,
        silent_us: int = 15_000_000,
        max_age_us: int | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._clock_us = clock_us
        self._max_message_bytes = max_message_bytes
        self._max_queued = max_queued
        self._max_peers = max_peers
        self._silent_us = silent_us
        self._max_age_us = max_age_us
        self._changed = threading.Condition()
        self._streams: set[_Stream] = set()
        self._stopping = False
        self.refused_messages = 0
        self.faults = 0
        self.left_behind: list[str] = []
        self.trouble: list[str] = []

    def start(self) -> None:
        """Its server is bound already."""

    def halt(self) -> None:
        with self._changed:
            self._stopping = True
            current = tuple(self._streams)
        for stream in current:
            stream.peer.close()

    def stop(self, within_s: float = STOP_WITHIN_S) -> None:
        self.halt()
        with self._changed:
            self._changed.wait_for(lambda: not self._streams, within_s)

    @property
    def streams(self) -> int:
        """Those open now."""
        return len(self._streams)

    async def serve(self, lane: Lane, requests: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The replies of one stream, from its first message to its end."""
        peer = StreamPeer(max_queued=self._max_queued, heard_us=self._clock_us())
        if words := self._no_place():
            self._refuse()
            yield envelope.pack_to_agent(Error(reason=RejectReason.DRAINING, text=words, retry=True))
            return
        try:
            stream = _Stream(peer, self._endpoint.open(peer), self._old_us())
        except Exception:
            self.faults += 1
            log.exception("a stream could not be opened")
            return
        with self._changed:
            self._streams.add(stream)
            stopped = self._stopping
        if stopped:  # between the question and the entry
            peer.close()
        tasks = [
            asyncio.ensure_future(self._read(lane, stream, requests)),
            asyncio.ensure_future(self._look(stream)),
        ]
        try:
            async for data in peer:
                yield data
        finally:
            for task in tasks:
                task.cancel()
            peer.end()
            stream.session.closed()
            with self._changed:
                self._streams.discard(stream)
                self._changed.notify_all()

    def _no_place(self) -> str:
        if self._stopping:
            return "this worker is stopping"
        if len(self._streams) >= self._max_peers:
            return f"this worker serves {self._max_peers} streams and has no place for one more"
        return ""

    def _old_us(self) -> int | None:
        if self._max_age_us is None:
            return None
        return self._clock_us() + int(self._max_age_us * random.uniform(0.9, 1.1))  # noqa: S311 - no secret

    async def _read(self, lane: Lane, stream: _Stream, requests: AsyncIterator[bytes]) -> None:
        peer, session = stream.peer, stream.session
        try:
            async for data in requests:
                peer.heard_us = self._clock_us()
                if len(data) > self._max_message_bytes + envelope.OVERHEAD_BYTES:
                    self._refuse()
                    session.refuse(
                        f"{len(data)} bytes in one message; this worker takes {self._max_message_bytes}"
                    )
                    break
                hear(
                    data,
                    lane=lane,
                    peer=peer,
                    session=session,
                    arrived_us=peer.heard_us,
                    refused=self._refuse,
                )
        except Exception:
            self.faults += 1
            log.exception("a stream could not be read any further, and ends")
        finally:
            peer.close()

    async def _look(self, stream: _Stream) -> None:
        """End it once it is silent, or old."""
        while True:
            await asyncio.sleep(min(_LOOK_EVERY_S, self._silent_us / 4e6))
            now_us = self._clock_us()
            if now_us - stream.peer.heard_us > self._silent_us:
                stream.peer.end()
            elif stream.may_end(now_us):
                stream.peer.close()

    def _refuse(self) -> None:
        self.refused_messages += 1
