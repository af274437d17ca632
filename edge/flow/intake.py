"""Frames in slots: which are taken now, and which wait there until somebody could answer them.

Owned by the dispatcher thread. A frame that waits stays in its slot, where its successor replaces it; it is offered
again whenever something changed, and for the last time when its time is up. What is taken is in `pending`.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from edge.flow.pending import Pending
from edge.flow.stream_port import StreamPort
from edge.flow.tracking import Tracking
from edge.flow.unasked import Unasked
from edge.scheduling.actions import Action
from edge.scheduling.key import Key
from edge.scheduling.scheduler import Scheduler
from pipelines.frame import Frame
from pipelines.result import ShedReason

LOOK_AGAIN_US = 250_000
"""A frame whose time has not started is offered again after this long even if nothing happened."""


class Intake:
    """`waiting`: streams with a frame in the slot that nobody could take yet, and when its time will be up."""

    def __init__(
        self,
        *,
        scheduler: Scheduler,
        deadline_us: int,
        ports: Mapping[str, StreamPort],
        pending: dict[Key, Pending],
        unasked: Unasked,
        clock_us: Callable[[], int],
        tracking: Tracking | None = None,
    ) -> None:
        self.waiting: dict[str, int] = {}
        self._scheduler = scheduler
        self._deadline_us = deadline_us
        self._ports = ports
        self._pending = pending
        self._unasked = unasked
        self._clock_us = clock_us
        self._tracking = tracking
        self._closed = False

    def close(self) -> None:
        """From now on frames in slots are shed as `stopping`."""
        self._closed = True

    def take(self, stream: str) -> list[Action]:
        """Accept the frame in the slot of `stream`, if somebody could answer it now; else it waits. What the scheduler
        decided about it."""
        slot = self._ports[stream].slot
        if self._closed:
            self.waiting.pop(stream, None)
            if (frame := slot.take_when(lambda _: True)) is not None:
                self._unasked.shed(frame, ShedReason.STOPPING)
            return []
        decided: list[Action] = []
        taken = slot.take_when(lambda frame: self._accept(frame, decided))
        left = slot.peek() if taken is None else None
        if left is not None:
            key, deadline_us = (stream, left.seq), left.captured_us + self._deadline_us
            up_us = self._scheduler.waits_until_us(key, deadline_us)
            self.waiting[stream] = up_us if left.paced else self._clock_us() + LOOK_AGAIN_US
            return []
        self.waiting.pop(stream, None)
        return decided

    def _accept(self, frame: Frame, decided: list[Action]) -> bool:
        """Whether the scheduler takes `frame`; what it decided is added to `decided`."""
        now_us = self._clock_us()
        if not frame.paced:  # pull-driven: its time starts when it is accepted
            frame = replace(frame, captured_us=now_us, available_us=now_us)
        key = (frame.stream, frame.seq)
        deadline_us = frame.captured_us + self._deadline_us
        priority = self._scheduler.priority(frame.stream, now_us)
        offered = self._scheduler.offer(
            key, captured_us=frame.captured_us, deadline_us=deadline_us, now_us=now_us
        )
        if offered is None:
            return False
        self._pending[key] = Pending(
            frame=frame, deadline_us=deadline_us, accepted_us=now_us, priority=priority
        )
        if self._tracking is not None:
            oldest = next(seq for name, seq in self._pending if name == frame.stream)
            self._tracking.accepted(frame, oldest=oldest)
        decided.extend(offered)
        return True
