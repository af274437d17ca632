"""The open frames and their answers: each is given exactly once, by its deadline where near or far can.

Near's slots are kept here: a slot ends a commit before the answer's time. What is decided is collected as
actions and taken with `finish`.
"""

from bisect import insort
from collections.abc import Iterator, Mapping
from operator import attrgetter

from edge.scheduling.actions import Action, CancelFar, CancelNear, Give, Release, Shed, Track
from edge.scheduling.carrying import Carrying
from edge.scheduling.job import HELD, LIKELY_P, NONE, OVER, RESERVED, RUNNING, Job
from edge.scheduling.key import Key
from edge.scheduling.near.way import NearWay
from edge.scheduling.policies import HEDGED
from edge.scheduling.settings import SchedulerSettings
from edge.scheduling.stream import Stream
from edge.scheduling.uncovered import Uncovered
from edge.scheduling.wake_up import WakeUp
from pipelines.result import AnsweredBy, ShedReason, Status

NEVER_US = 1 << 62
_answer_by_us = attrgetter("answer_by_us")


class JobTable:
    def __init__(
        self, settings: SchedulerSettings, near: NearWay, wake_up: WakeUp, streams: Mapping[str, Stream]
    ) -> None:
        self._settings = settings
        self._near = near
        self._wake_up = wake_up
        self._streams = streams
        self.carrying = Carrying(settings.tracking, wake_up, streams)
        self._jobs: dict[Key, Job] = {}
        self._timed: list[Job] = []  # those that may still be due at some time, by `answer_by_us`
        self._left: dict[Key, int] = {}  # answered, with far results still out: when those are forgotten
        self._alone: dict[Key, Job] = {}  # nobody has time for them yet, but near is busy and may have
        self._hedged = near.exists and settings.policy in HEDGED and settings.hedge != "never"
        self._uncovered = Uncovered()
        self.out: list[Action] = []

    def __iter__(self) -> Iterator[Job]:
        return iter(list(self._jobs.values()))  # a snapshot: jobs may end while they are gone through

    def __len__(self) -> int:
        """Accepted and not yet released."""
        return sum(1 for j in self._jobs.values() if j.given is None or j.release_by_us is not None)

    def get(self, key: Key) -> Job | None:
        return self._jobs.get(key)

    def add(self, job: Job) -> None:
        self._jobs[job.key] = job
        if self._timed and self._timed[-1].answer_by_us > job.answer_by_us:
            insort(self._timed, job, key=_answer_by_us)
        else:
            self._timed.append(job)

    def pop(self, key: Key) -> Job | None:
        """Forget a frame without an answer; a near run of it is stopped."""
        job = self._forget(key)
        if job is not None:
            self._near.release(job)
            if job.near is RUNNING:
                self.out.append(CancelNear(key))
        return job

    # -- near ---------------------------------------------------------------------------------------------

    def reserve(self, job: Job, now_us: int) -> bool:
        """A near slot that leaves time for the commit."""
        latest_end_us = job.answer_by_us - self._wake_up.commit_us
        return self._near.reserve(
            job, latest_end_us=latest_end_us, ready_us=self._hold_until_us(job), now_us=now_us
        )

    def run_again(self, job: Job, now_us: int) -> None:
        """A full run was stopped because it would be late: the smaller input still fits."""
        job.near = NONE
        if self.reserve(job, now_us):
            job.eager = True
        else:
            job.near = OVER

    def near_is_short(self, now_us: int) -> bool:
        return self._near.short(now_us)

    def let_go(self, job: Job) -> None:
        """The frame goes far without near behind it."""
        self._near.release(job)
        job.near = NONE

    def make_room(self, job: Job, now_us: int, *, hopeful_only: bool) -> list[Job]:
        """Near time at the cost of less important frames. Returned are those that have no hope for far either."""
        losers = self._near.make_room(
            job,
            self._jobs,
            latest_end_us=job.answer_by_us - self._wake_up.commit_us,
            ready_us=self._hold_until_us(job),
            now_us=now_us,
            hopeful_only=hopeful_only,
        )
        self.out += [CancelNear(loser.key) for loser in losers if loser is self._near.stopped]
        for loser in losers:
            if self._hedged and loser.far_hoped:
                self._uncovered.add(loser)
        return [loser for loser in losers if not loser.far_hoped]

    def shed(self, job: Job, reason: ShedReason) -> None:
        """An accepted frame gets no answer."""
        self._forget(job.key)
        self.out.append(Shed(job.key, reason))

    def fallback(self, job: Job) -> float:
        """The accuracy of what would answer the frame if far does not: near, smaller near, tracked, missed."""
        settings = self._settings
        if job.near in (RESERVED, RUNNING, HELD):
            if job.near_small and settings.small_near is not None:
                return settings.small_near.accuracy
            return settings.near_accuracy or 0.0
        return self.carrying.accuracy(job.key)

    # -- answers ------------------------------------------------------------------------------------------

    def settle(self, job: Job, now_us: int) -> None:
        """Give what can be given by now."""
        if job.given is not None:
            return
        if job.near is HELD:
            if not job.far_hoped or now_us >= self._give_near_us(job):
                self.give(job, AnsweredBy.NEAR, Status.OK, job.far_reason, now_us=now_us)
            return
        nobody = not job.far_open and job.near in (NONE, OVER)
        if nobody and job.near is NONE and self.reserve(job, now_us):
            job.eager = True  # far ended without an answer and nothing was kept: near may still make it
            return
        if self._hedged and job.near is NONE and job.far_open:
            self._uncovered.add(job)
        alone = nobody and job.near is NONE and self._near.busy
        if now_us >= self.carrying.give_up_us(job) or (nobody and not alone):
            self._miss(job, now_us)
            return
        if alone:
            self._alone[job.key] = job
        if not job.tracked and self.carrying.begins(job, now_us):
            job.tracked = True
            self.out.append(Track(job.key))

    def give(
        self, job: Job, by: AnsweredBy, status: Status, reason: str, *, now_us: int, link: str = ""
    ) -> None:
        """`link` = whose far answer it is; every other answer is committed before it is released."""
        if by is AnsweredBy.FAR and job.near is RUNNING:
            self.out.append(CancelNear(job.key))
        self._near.release(job)
        if job.near is not RUNNING:
            job.near = OVER
        job.given = by
        hold = by is not AnsweredBy.FAR
        if hold:
            job.release_by_us = job.out_by_us(now_us, commit_us=self._wake_up.commit_us)
        good = status is Status.OK and by in (AnsweredBy.NEAR, AnsweredBy.FAR)
        self._streams[job.key[0]].answered(job.key[1], job.captured_us, good=good)
        self.out.append(Give(job.key, by, status, reason, hold, link))

    def release(self, job: Job, *, committed: bool) -> None:
        job.release_by_us = None
        self.out.append(Release(job.key, committed))
        self.drop_if_done(job)

    def drop_if_done(self, job: Job) -> None:
        """A given frame is kept only while near still runs it or far may still answer late."""
        done = job.given is not None and job.release_by_us is None
        if done and job.near is not RUNNING and not job.far_open:
            self._forget(job.key)

    # -- time ---------------------------------------------------------------------------------------------

    def waits(self, job: Job, now_us: int) -> bool:
        """Whether nothing about `job` can be due: near is reserved for it, and its time is not near."""
        if job.near is not RESERVED or job.given is not None:
            return False
        return now_us < job.answer_by_us - self._wake_up.commit_us - self.carrying.guard_us

    def tick(self, job: Job, now_us: int) -> None:
        if job.release_by_us is not None and now_us >= job.release_by_us:
            self.release(job, committed=False)
        again_us = self._again_us(job) if self._near.small_estimate is not None else None
        if again_us is not None and now_us >= again_us:
            job.near_again = True
            self._near.give_up(job, now_us)
            self.out.append(CancelNear(job.key))
        if job.key in self._left:
            self._leave(job)
        self.settle(job, now_us)

    def next_us(self) -> int | None:
        """When a job needs a `tick`, or one of its flights becomes overdue."""
        tracks, small = self.carrying.exists, self._near.small_estimate is not None
        early_us = max(self._wake_up.commit_us + self.carrying.guard_us, self._wake_up.hold_unlikely_us)
        soonest_us = NEVER_US
        over: list[Job] = []
        for job in self._timed:
            answer_by_us = job.answer_by_us
            if answer_by_us >= soonest_us and not small:
                if answer_by_us - early_us >= soonest_us:
                    break  # nothing about a job is due earlier than that, but a run to be done anew smaller
                if not tracks and job.near is not HELD:
                    continue
            if job.given is not None:
                due_us: int | None = job.release_by_us
            elif job.near is HELD:
                due_us = self._give_near_us(job)
            elif tracks:
                due_us = self.carrying.due_us(job)
            else:
                due_us = job.give_up_us
            if small and job.near is RUNNING and job.given is None:
                again_us = self._again_us(job)
                due_us = due_us if again_us is None or due_us is None else min(due_us, again_us)
            if due_us is None or due_us > answer_by_us:
                for flight in job.flights.values():
                    if flight.sent_us is not None and not flight.overdue:
                        due_us = answer_by_us
            if due_us is None:
                over.append(job)  # given, out, and no flight of it becomes overdue: that stays so
            elif due_us < soonest_us:
                soonest_us = due_us
        for job in over:
            self._timed.remove(job)
            self._leave(job)
        if self._left:
            soonest_us = min(soonest_us, *self._left.values())
        return None if soonest_us == NEVER_US else soonest_us

    def finish(self, now_us: int) -> list[Action]:
        """What was decided, with the near run to start now."""
        if self._alone:
            alone, self._alone = self._alone, {}
            for job in alone.values():
                if job.key in self._jobs:
                    self.settle(job, now_us)
        if self._uncovered and not self._near.runs:
            for job in self._uncovered:
                job.eager = self.reserve(job, now_us) or job.eager
        start = self._near.start_next(self._jobs, now_us)
        if start is not None:
            self.out.append(start)
        out, self.out = self.out, []
        return out

    # -- inside -------------------------------------------------------------------------------------------

    def _give_near_us(self, job: Job) -> int:
        """When a near answer that waits for far is given."""
        unlikely_us = self._wake_up.hold_unlikely_us
        return self._hold_until_us(job) if job.far_in_time(LIKELY_P) else job.deadline_us - unlikely_us

    def _hold_until_us(self, job: Job) -> int:
        """Until when a near answer may wait for far."""
        return min(job.answer_by_us - self._wake_up.commit_us, job.deadline_us - self._wake_up.hold_us)

    def _forget(self, key: Key) -> Job | None:
        job = self._jobs.pop(key, None)
        self._left.pop(key, None)
        self._uncovered.drop(key)
        if job is not None and job in self._timed:
            self._timed.remove(job)
        return job

    def _leave(self, job: Job) -> None:
        """An answered frame: what is out of it fills the link until it is forgotten, whatever else happens."""
        forget_us = job.forget_us
        if forget_us is None:
            self._left.pop(job.key, None)
        else:
            self._left[job.key] = forget_us

    def _again_us(self, job: Job) -> int | None:
        if job.near is not RUNNING or job.given is not None:
            return None
        return self._near.again_us(job, job.answer_by_us - self._wake_up.commit_us)

    def _miss(self, job: Job, now_us: int) -> None:
        """Nobody can answer in time: carried forward from the last answer, or said as it is."""
        not_near = f"; {job.why_not_near}" if self._near.exists else ""
        if job.near is RUNNING:
            self._near.give_up(job, now_us)
            self.out.append(CancelNear(job.key))
        for flight in job.flights.values():
            if flight.sent_us is not None:
                self.out.append(CancelFar(job.key, flight.link))
        status = job.near_status if job.near is OVER else Status.TIMEOUT
        reason = job.far_reason or (f"far not back in time{not_near}" if job.far_open else "no time for near")
        if self.carrying.trackable(job.key):
            self.give(job, AnsweredBy.TRACKED, Status.OK, reason, now_us=now_us)
        else:
            self.give(job, AnsweredBy.MISSED, status, reason, now_us=now_us)
