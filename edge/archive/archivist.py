"""The archivist: encodes the pictures that rules want, on a thread of its own, and hands them to the outbox.

    answer ─→ rules ─→ (few pictures waiting) ─→ encode ─→ outbox
                                                   └─→ ring ─→ outbox, when something happens nearby

The dispatcher only judges and hands over. The thread runs behind all others; while it is busy, pictures are shed and
counted, those nobody asked for by name first.
"""

import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

from edge.archive.ring import AroundRing
from edge.archive.rules import UplinkRules, Verdict
from edge.outbox.payload import PayloadEntry, payload_entry
from pipelines.codecs.base import Codec
from pipelines.errors import NearfarError
from pipelines.frame import Frame
from pipelines.log_throttle import LogThrottle
from pipelines.result import PRIORITIES, Priority, Record

log = logging.getLogger(__name__)

WAITING = 4
"""Pictures that wait for the encoder: raw ones, six megabytes each at 1080p."""
RING_BYTES = 64 << 20
_NICE = 5


class ArchiveCounts(NamedTuple):
    """Pictures: `wanted` by a rule or to be held, `kept` in the outbox, `shed` while the encoder was busy, `failed` to
    encode, `crowded` out of the ring."""

    wanted: int = 0
    kept: int = 0
    shed: int = 0
    failed: int = 0
    crowded: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Order:
    frame: Frame
    run: bytes
    priority: Priority
    named: bool
    event: bool


class Archivist:
    """`judged` and `passed` are the dispatcher's. `keep` gets payloads from the archivist's thread. `ring` None: nothing is
    kept around events."""

    def __init__(
        self,
        *,
        rules: UplinkRules,
        codec: Codec,
        quality: int,
        ring: "AroundRing[PayloadEntry] | None",
        keep: Callable[[PayloadEntry], None],
        clock_us: Callable[[], int],
        most_waiting: int = WAITING,
    ) -> None:
        self._rules = rules
        self._codec = codec
        self._quality = quality
        self._ring = ring
        self._keep = keep
        self._clock_us = clock_us
        self._trouble = LogThrottle(log, clock_us=clock_us)
        self._most_waiting = most_waiting
        self._changed = threading.Condition()
        self._orders: deque[_Order] = deque()
        self._busy = False
        self._closed = False
        self._said: set[str] = set()
        self._wanted = self._kept = self._shed = self._failed = 0
        self._thread = threading.Thread(target=self._run, name="archive", daemon=True)

    @property
    def counts(self) -> ArchiveCounts:
        crowded = 0 if self._ring is None else self._ring.crowded
        return ArchiveCounts(self._wanted, self._kept, self._shed, self._failed, crowded)

    @property
    def idle(self) -> bool:
        """Whether nothing waits to be encoded."""
        with self._changed:
            return not self._orders and not self._busy

    def start(self) -> None:
        self._thread.start()

    def close(self, timeout_s: float) -> None:
        """Encode what waits and end the thread, as far as the time goes."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)

    # -- the dispatcher's -------------------------------------------------------------------------------------

    def judge(self, record: Record, frame: Frame) -> Verdict:
        """What the rules say of a frame that was not answered far; its picture is ordered if they want it. Once per
        frame."""
        verdict = self._rules.judge(record, (frame.width_px, frame.height_px))
        if verdict.payload or self._ring is not None:
            priority = verdict.priority or record.priority
            self._order(frame, record.id.run, priority, named=verdict.payload, event=verdict.event)
        return verdict

    def passed(self, record: Record, frame: Frame) -> None:
        """A frame that was answered far: it may lie near an event."""
        if self._ring is not None:
            self._order(frame, record.id.run, record.priority, named=False, event=False)

    def _order(self, frame: Frame, run: bytes, priority: Priority, *, named: bool, event: bool) -> None:
        order = _Order(frame=frame, run=run, priority=priority, named=named, event=event)
        with self._changed:
            self._wanted += 1
            if len(self._orders) >= self._most_waiting:
                self._shed += 1
                unnamed = next((o for o in self._orders if not o.named), None)
                if not named or unnamed is None:
                    return
                self._orders.remove(unnamed)
            self._orders.append(order)
            self._changed.notify()

    # -- the thread -------------------------------------------------------------------------------------------

    def _run(self) -> None:
        with suppress(OSError):  # of this thread alone, on Linux: a picture for later never delays an answer
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
        while (order := self._take()) is not None:
            try:
                self._do(order)
            except NearfarError as error:
                self._failed += 1
                self._say(f"stream {order.frame.stream}: pictures cannot be archived: {error}")
            except Exception as error:  # noqa: BLE001 - said with its traceback
                self._failed += 1
                words = f"cannot be archived at {order.frame.seq}"
                self._trouble.failed(f"stream {order.frame.stream}", words, error=error)
            else:
                self._trouble.worked(f"stream {order.frame.stream}")

    def _take(self) -> _Order | None:
        with self._changed:
            self._busy = False
            self._changed.wait_for(lambda: self._orders or self._closed)
            if not self._orders:
                return None
            self._busy = True
            return self._orders.popleft()

    def _do(self, order: _Order) -> None:
        frame = order.frame
        data, encoding = self._codec.encode(frame.picture, quality=self._quality)
        entry = payload_entry(
            (order.run, frame.stream, frame.seq),
            data,
            encoding,
            priority=PRIORITIES.index(order.priority),
            age_us=self._clock_us() - frame.captured_us,
            source_size=(frame.width_px, frame.height_px),
            hard=order.event,
        )
        ring = self._ring
        if order.event and ring is not None:
            for near in ring.event(frame.stream, frame.captured_us):
                self._hand_over(near, order.priority)
        if order.named or (ring is not None and ring.add(frame.stream, frame.captured_us, entry)):
            self._hand_over(entry, order.priority)

    def _hand_over(self, entry: PayloadEntry, priority: Priority) -> None:
        """With the priority of the event it lies near, if that is higher."""
        number = max(entry.shown.priority, PRIORITIES.index(priority))
        self._kept += 1
        self._keep(replace(entry, shown=replace(entry.shown, priority=number)))

    def _say(self, words: str) -> None:
        if words not in self._said and len(self._said) < 64:
            self._said.add(words)
            log.warning("%s", words)
