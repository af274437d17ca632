"""The enactor: turns the scheduler's decisions into calls that return at once.

Owned by the dispatcher thread, like everything it is given. An action that fails is logged and takes no other with it.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from edge.archive.archivist import Archivist
from edge.far.ports import FarPorts
from edge.flow.answer_desk import AnswerDesk
from edge.flow.pending import Pending
from edge.flow.track_runner import TrackRun
from edge.flow.tracking import Tracking, give_honestly
from edge.flow.unasked import Unasked
from edge.near.runner import NearRunner
from edge.outbox.port import Outbox
from edge.scheduling import actions
from edge.scheduling.key import Key
from edge.scheduling.scheduler import Scheduler
from edge.telemetry.counters import Counters
from pipelines.log_throttle import LogThrottle
from pipelines.result import AnsweredBy, Record, Status

log = logging.getLogger(__name__)


class Enactor:
    """`pending` are the frames taken and not yet answered; the one whose answer is out leaves it. `far` is None without
    a link."""

    def __init__(
        self,
        *,
        scheduler: Scheduler,
        near: NearRunner | None,
        far: FarPorts | None,
        outbox: Outbox,
        desk: AnswerDesk,
        counters: Counters,
        unasked: Unasked,
        pending: dict[Key, Pending],
        clock_us: Callable[[], int],
        tracking: Tracking | None = None,
        archive: Archivist | None = None,
    ) -> None:
        self.scheduler = scheduler
        self._archive = archive
        self.far = far
        self._tracking = tracking
        self.counters = counters
        self._near = near
        self._unasked = unasked
        self._outbox = outbox
        self._desk = desk
        self._pending = pending
        self._clock_us = clock_us
        self._trouble = LogThrottle(log, clock_us=clock_us)

    def do(self, decided: Sequence[actions.Action]) -> None:
        """Every action gets its chance: one that fails is logged and must not take the others with it."""
        for action in decided:
            try:
                self._act(action)
            except Exception as error:  # noqa: BLE001 - said with its traceback
                self._trouble.failed(f"dispatcher: {type(action).__name__}", "failed", error=error)
                if isinstance(action, actions.StartNear):
                    now_us = self._clock_us()
                    self.do(
                        self.scheduler.near_done(action.key, status=Status.FAILED, run_us=0, now_us=now_us)
                    )

    def _act(self, action: actions.Action) -> None:
        match action:
            case (
                actions.Encode()
                | actions.SendFrame()
                | actions.CancelFar()
                | actions.SendPing()
                | actions.OpenFresh()
            ):
                # Without a link nothing asks for far: far_only is refused by the configuration then.
                if self.far is not None:
                    self.do(self.far.act(action))
            case actions.StartNear(key, due_us, small):
                assert self._near is not None  # noqa: S101 - the scheduler has a near only if we do
                pending = self._pending[key]
                pending.near_due_us = due_us
                self._near.submit(key, pending.frame.picture, small=small)
            case actions.CancelNear(key):
                if self._near is not None:
                    self._near.cancel(key)
            case actions.Track(key):
                if (open_frame := self._pending.get(key)) is not None:
                    self._track(open_frame)
            case actions.Give():
                self._give(action)
            case actions.Release(key, committed):
                self.release(key, committed=committed)
            case actions.Shed(key, reason):
                if (lost := self._pending.pop(key, None)) is not None:
                    self._unasked.shed(lost.frame, reason)
            case actions.LateFar((stream, seq)):
                self._late_far(stream, seq)

    def _give(self, give: actions.Give) -> None:
        pending = self._pending[give.key]
        pending.give = give
        pending.given_us = self._clock_us()
        if not give.hold:
            self.release(give.key, committed=True)
        elif give.by is AnsweredBy.TRACKED and pending.track is None and self._tracking is not None:
            self._track(pending)
        else:
            self._record(pending)

    def _track(self, pending: Pending) -> None:
        if self._tracking is not None and not pending.track_ordered:
            pending.track_ordered = True
            self._tracking.carry((pending.frame.stream, pending.frame.seq))

    def tracked(self, run: TrackRun) -> None:
        """The tracker is done with a frame, or with one that is answered already."""
        self.scheduler.tracked(run.took_us)
        pending = self._pending.get(run.key)
        if pending is None:
            return
        pending.track = run
        if pending.give is not None and pending.give.by is AnsweredBy.TRACKED and not pending.recorded:
            pending.given_us = self._clock_us()
            self._record(pending)

    def _record(self, pending: Pending) -> None:
        give_honestly(pending)
        record = self._ruled(pending, self._desk.record(pending, self.scheduler))
        pending.recorded = True
        pending.recorded_in_time = record.latency_us <= pending.deadline_us - pending.frame.captured_us
        self._outbox.append(record)
        if not self._outbox.stats().writes:  # it would be late by choice: memory holds it until the disk does
            key = (pending.frame.stream, pending.frame.seq)
            self.do(self.scheduler.committed(key, self._clock_us(), kept=False))

    def release(self, key: Key, *, committed: bool) -> None:
        pending = self._pending.pop(key)
        give_honestly(pending)
        answer = self._desk.release(pending, self.scheduler)
        if answer.detections is not None:
            size_px = (pending.frame.width_px, pending.frame.height_px)
            self.scheduler.saw(key[0], answer.detections, self._clock_us(), size_px)
        self.counters.answer(answer)
        self.counters.uncommitted += not committed
        if pending.give is not None and not pending.give.hold:
            record = self._desk.as_record(answer)
            self._outbox.far_answered(record)
            if self._archive is not None:
                self._archive.passed(record, pending.frame)
        elif not pending.recorded or (answer.latency_us <= answer.deadline_us) != pending.recorded_in_time:
            # The tracker was not done in time, or the commit crossed the deadline: the cloud must not say otherwise.
            # It replaces the first.
            self._outbox.append(self._ruled(pending, self._desk.as_record(answer)))
        self._outbox.settled(*key)

    def _ruled(self, pending: Pending, record: Record) -> Record:
        """The record as the rules of the uplink rank it; they are asked once per frame."""
        if self._archive is None:
            return record
        if pending.verdict is None:
            pending.verdict = self._archive.judge(record, pending.frame)
        priority = pending.verdict.priority
        return record if priority is None else replace(record, priority=priority)

    def _late_far(self, stream: str, seq: int) -> None:
        if not stream:
            return
        if self._desk.late_far(stream, seq):
            self.counters.late_far += 1
            self._outbox.late_far(self._desk.frame_id(stream, seq))
