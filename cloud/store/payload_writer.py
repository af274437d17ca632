"""Puts pictures into the payload store on a thread of its own: no frame and no record waits for them.

What is acknowledged is on the disk. Bounded by bytes: what finds no room is dropped and counted; a backfilled one stays
with its agent, a live one was a copy. While the disk or the store refuses, what waits is tried again; what still waits
at the end is counted as dropped.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from cloud.store.payloads import Payload
from pipelines.errors import Fatal, Rejected, Retryable

log = logging.getLogger(__name__)

_GROUP = 16
_RETRY_S = 0.2
_RETRY_MAX_S = 2.0


class PayloadStore(Protocol):
    """What the writer needs of `Payloads`."""

    def commit(self, arrivals: Sequence[Payload], *, now_unix_us: int) -> None: ...


@dataclass(frozen=True, slots=True)
class Arrival:
    """`to`: whom to tell once it is kept, as the submitter knows it; None: nobody waits for word."""

    payload: Payload
    to: object = None


class PayloadWriter:
    """`submit` from any thread, never blocks. `acknowledge` gets what is durably kept and has somebody to tell.
    `trouble`: why it cannot write, empty while it can. `dropped`, `refused` count payloads."""

    def __init__(
        self,
        store: PayloadStore,
        *,
        acknowledge: Callable[[Sequence[Arrival]], None],
        unix_us: Callable[[], int],
        max_pending_bytes: int = 64 << 20,
    ) -> None:
        self._store = store
        self._acknowledge = acknowledge
        self._unix_us = unix_us
        self._max_pending_bytes = max_pending_bytes
        self._changed = threading.Condition()
        self._waiting: list[Arrival] = []
        self._bytes = 0
        self._writing = False
        self._stopping = False
        self.trouble = ""
        self.dropped = 0
        self.refused = 0
        self._give_way: Callable[[], None] = lambda: None
        self.thread = threading.Thread(target=self._run, name="nearfar-payloads", daemon=True)

    def start(self) -> None:
        self.thread.start()

    def give_way_to(self, frames: Callable[[], None]) -> None:
        """Call `frames` before every group; it returns when they leave room, and within a time of its own. Before
        `start`."""
        self._give_way = frames

    def submit(self, payload: Payload, to: object = None) -> bool:
        """False when it is dropped because too much waits already."""
        with self._changed:
            if self._stopping or self._bytes + len(payload.data) > self._max_pending_bytes:
                self.dropped += 1
                return False
            self._waiting.append(Arrival(payload, to))
            self._bytes += len(payload.data)
            self._changed.notify_all()
            return True

    def flush(self, timeout_us: int) -> bool:
        """Wait until nothing is pending; False if the time was not enough."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting and not self._writing, timeout_us / 1e6)

    def halt(self) -> None:
        """Nothing more after the present group."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._stopping)
                if self._stopping:
                    self.dropped += len(self._waiting)
                    self._waiting = []
                    return
                group, self._waiting = self._waiting[:_GROUP], self._waiting[_GROUP:]
                self._writing = True
            self._give_way()
            stored = self._write(group)
            if told := [arrival for arrival in stored if arrival.to is not None]:
                try:
                    self._acknowledge(told)
                except Exception:  # the agent offers it again; the writer must live
                    log.exception("acknowledging %d payloads failed", len(told))
            with self._changed:
                self._writing = False
                self._bytes -= sum(len(arrival.payload.data) for arrival in group)
                self._changed.notify_all()

    def _write(self, group: Sequence[Arrival]) -> list[Arrival]:
        """Those that are kept now; one that can never be does not hold up the others."""
        try:
            if self._commit(group):
                return list(group)
        except Exception as error:  # whatever one value provokes, the writer must live
            if len(group) > 1:
                middle = len(group) // 2
                return self._write(group[:middle]) + self._write(group[middle:])
            self.refused += 1
            if isinstance(error, Rejected):
                log.error("the payload of %s is not kept: %s", group[0].payload.id, error)  # noqa: TRY400 - said in full
            else:
                log.exception("the payload of %s is not kept", group[0].payload.id)
            return []
        self.dropped += len(group)
        return []

    def _commit(self, group: Sequence[Arrival]) -> bool:
        """Try until it is kept; False if the writer was stopped before."""
        delay_s = _RETRY_S
        while True:
            try:
                self._store.commit([a.payload for a in group], now_unix_us=self._unix_us())
            except (Retryable, Fatal) as error:  # a store that cannot be read blames no picture
                if not self.trouble:
                    log.warning("%s; pictures wait, answers and records go on", error)
                self.trouble = str(error)
                with self._changed:
                    if self._changed.wait_for(lambda: self._stopping, delay_s):
                        return False
                delay_s = min(2 * delay_s, _RETRY_MAX_S)
            else:
                self.trouble = ""
                return True
