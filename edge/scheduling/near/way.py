"""The near way: one serial detector, its timeline, how long it takes, and which frame it runs next.

A gateway may have a smaller input beside the full one: it serves frames the full one can no longer make.
"""

from collections.abc import Mapping

from edge.scheduling.actions import StartNear
from edge.scheduling.fair_share import WEIGHTS
from edge.scheduling.job import NONE, RESERVED, RUNNING, SURE_P, Job
from edge.scheduling.key import Key
from edge.scheduling.near.claims import NearClaims, importance
from edge.scheduling.near.estimate import NearEstimate
from edge.scheduling.near.lead import NearLead
from edge.scheduling.near.timeline import NearTimeline
from edge.scheduling.settings import SmallNear
from pipelines.result import AnsweredBy, Priority, Status

TRIAL_US = 2_000_000
CANCEL_US = 3_000
"""A run that is stopped goes on so long at most, if its detector can be stopped."""
FORGIVING = 0.999
"""How a stop that took longer fades with every frame that it would have helped too late: a pause of the machine is
forgotten, after thousands of them."""
LONGEST_TRIAL_US = 32_000_000
"""While the smaller input answers, the full one is tried so often, after every failure half as often."""


class NearWay:
    """`prior_us` is a run's time before the first was seen; `exists` False = this gateway has no near."""

    def __init__(
        self,
        *,
        prior_us: int,
        exists: bool,
        small: SmallNear | None = None,
        weights: Mapping[Priority, float] = WEIGHTS,
    ) -> None:
        self.exists = exists
        self.timeline = NearTimeline()
        self.estimate = NearEstimate(prior_us)
        self.small_estimate = None if small is None or not exists else NearEstimate(small.prior_us)
        self.claims = NearClaims(weights)
        self.lead = NearLead(prior_us)
        self.small_lead = NearLead(prior_us if small is None else small.prior_us)
        self._looked_us = 0  # when it was last asked what to start
        self._fresh_guard_us = self.estimate.guard_us
        self._trial_us = 0  # when the full input is tried again at the earliest
        self._trial_wait_us = TRIAL_US
        self._running: Job | None = None
        self._started_us = 0
        self.stopped: Job | None = None
        """The run that is on, if it is being stopped for another frame's sake."""
        self._stopped_us = 0
        self.stop_us = CANCEL_US
        """How long a run that is stopped is expected to go on."""

    def reserve(self, job: Job, *, latest_end_us: int, ready_us: int, now_us: int) -> bool:
        """Keep near time for `job` that ends by `latest_end_us`; False if there is none. If near is idle the run
        starts so early that its tail, too, ends by `ready_us`.

        An idle near also takes a frame that only its median run would make, and any frame while its median
        makes none from the moment it was offered: a run that may be late beats no answer, and without runs the guard
        would never learn that near is quick again. So of frames offered for the first time it refuses none.
        """
        if not self.exists:
            return False
        guard_us = self.estimate.guard_us
        small = job.near_trial = False
        idle = self._running is None and self.timeline.first() is None
        early_us = ready_us - self.lead.lead_us
        slot = self.timeline.reserve(
            job.key, guard_us=guard_us, latest_end_us=latest_end_us, now_us=now_us, early_us=early_us
        )
        if slot is None and idle and self._tries_full(latest_end_us, now_us):
            slot = self.timeline.reserve(
                job.key, guard_us=latest_end_us - now_us, latest_end_us=latest_end_us, now_us=now_us
            )
            job.near_trial = slot is not None
        if slot is None and self.small_estimate is not None:
            small = True
            slot = self.timeline.reserve(
                job.key,
                guard_us=self.small_estimate.guard_us,
                latest_end_us=latest_end_us,
                now_us=now_us,
                early_us=ready_us - self.small_lead.lead_us,
            )
        if slot is None and idle and now_us < latest_end_us:
            p50_us = self.estimate.p50_us
            small = False
            offered_us = self.claims.offered_us(job, now_us)
            if now_us + p50_us <= latest_end_us or p50_us > latest_end_us - offered_us:
                slot = self.timeline.reserve(
                    job.key, guard_us=latest_end_us - now_us, latest_end_us=latest_end_us, now_us=now_us
                )
        if slot is None:
            self.claims.load.found_short(now_us)
        job.near = NONE if slot is None else RESERVED
        job.near_small = small and slot is not None
        return slot is not None

    def make_room(
        self,
        job: Job,
        jobs: Mapping[Key, Job],
        *,
        latest_end_us: int,
        ready_us: int,
        now_us: int,
        hopeful_only: bool,
    ) -> list[Job]:
        """Time for `job` at the cost of other streams: frames that lost theirs, none if in vain.

        Frames that still hope for far go first (`hopeful_only`: only they). The run that is on is stopped last. Were it
        never stopped, a camera whose pictures come just after another's would never have near.
        """
        weaker = [
            other
            for slot in self.timeline
            if self.claims.gives_way(other := jobs[slot.key], job, now_us, hopeful_only=hopeful_only)
        ]
        weaker.sort(key=lambda other: (not other.far_hoped, importance(other), -other.deadline_us))
        before = self.timeline.slots
        for i, loser in enumerate(weaker):
            self.timeline.release(loser.key)
            if self.reserve(job, latest_end_us=latest_end_us, ready_us=ready_us, now_us=now_us):
                losers = weaker[: i + 1]
                for other in losers:
                    other.near = NONE
                return losers
        self.timeline.restore(before)
        running = self._running
        if hopeful_only or running is None or running.given is not None or self.stopped is running:
            return []
        half_done = now_us - self._started_us >= self._estimate(small=running.near_small).p50_us // 2
        if not self.claims.stops(running, job, now_us, half_done=half_done):
            return []
        busy_until_us = self.timeline.expect_end(now_us + self.stop_us)
        if not self.reserve(job, latest_end_us=latest_end_us, ready_us=ready_us, now_us=now_us):
            self.timeline.expect_end(busy_until_us)
            self.stop_us = max(CANCEL_US, int(FORGIVING * self.stop_us))
            return []
        self.stopped, self._stopped_us = running, now_us
        running.near = NONE
        return [running]

    def release(self, job: Job) -> None:
        self.timeline.release(job.key)

    def ended(self, *, status: Status | None, run_us: int, now_us: int) -> None:
        """The run that was on has ended; only whole runs say how long near takes."""
        self.timeline.finish(now_us)
        job, self._running = self._running, None
        stopped, self.stopped = self.stopped is not None, None
        if stopped:
            self.stop_us = max(CANCEL_US, now_us - self._stopped_us)
            if status is not Status.OK:
                return  # it says nothing of near, and its stream had no use of it
        if job is not None:
            self.claims.share.charge(job.key[0], run_us, now_us)
            self._tried(job, good=status is Status.OK, now_us=now_us)
        if status is None and job is not None and job.given is AnsweredBy.FAR:
            lead = self.small_lead if job.near_small else self.lead
            took_us = now_us - self._started_us - self.stop_us
            lead.not_needed(took_us, frame_us=job.deadline_us - job.captured_us)
        if status is not Status.OK:
            return  # a run given up was counted when it was
        if job is not None:
            self.claims.ran(job, now_us)
            self._learn(job, now_us)
        self._estimate(small=job is not None and job.near_small).observe(run_us)

    def give_up(self, job: Job, now_us: int) -> None:
        """The run of `job` is stopped because its time is up: near takes at least so long."""
        self._estimate(small=job.near_small).observe(now_us - self._started_us)
        self._learn(job, now_us, whole=False)

    def again_us(self, job: Job, latest_end_us: int) -> int | None:
        """When the run of `job` should be stopped to answer it at the smaller input, the last moment at which that
        fits; None if there is no such input, or if the run is not expected to have ended by then."""
        if self.small_estimate is None or job is not self._running or job.near_small or job.near_again:
            return None
        again_us = latest_end_us - self.small_estimate.guard_us - self.stop_us
        guard_us = self._fresh_guard_us if job.near_trial else self.estimate.guard_us
        return again_us if self._started_us + guard_us <= again_us else None

    def start_next(self, jobs: Mapping[Key, Job], now_us: int) -> StartNear | None:
        """The run to start now: a slot that is due, or an eager or early frame that is over before any other's slot."""
        self._looked_us = now_us
        first = self.timeline.first()
        if self._running is not None or first is None:
            return None
        key = self._choose(first.key, jobs, now_us) if first.start_us > now_us else first.key
        slot = None if key is None else self.timeline.get(key)
        if slot is None:
            return None
        job = jobs[slot.key]
        job.near_small = self._must_be_small(job, now_us)
        self.timeline.begin(slot.key, guard_us=self._estimate(small=job.near_small).guard_us, now_us=now_us)
        self._running = job
        self._started_us = now_us
        job.near = RUNNING
        return StartNear(slot.key, min(now_us, slot.start_us), job.near_small)

    def due_us(self) -> int | None:
        """When the next slot starts or could start early, None while near is busy or nothing is reserved."""
        first = self.timeline.first()
        if first is None or self._running is not None:
            return None
        due_us = first.start_us
        for slot in self.timeline:
            early_us = slot.early_us
            if early_us is not None and self._looked_us < early_us < due_us:
                due_us = early_us
        return due_us

    def short(self, now_us: int) -> bool:
        """Whether it lately had no time for a frame: then none of its time should pass unused."""
        return self.claims.load.short(now_us)

    @property
    def runs(self) -> bool:
        return self._running is not None

    @property
    def busy(self) -> bool:
        """Whether near runs or is promised: who finds no time now may find some later."""
        return self._running is not None or self.timeline.first() is not None

    def _estimate(self, *, small: bool) -> NearEstimate:
        return self.small_estimate if small and self.small_estimate is not None else self.estimate

    def _learn(self, job: Job, now_us: int, *, whole: bool = True) -> None:
        lead = self.small_lead if job.near_small else self.lead
        lead.took(now_us - self._started_us, frame_us=job.deadline_us - job.captured_us, whole=whole)

    def _tries_full(self, latest_end_us: int, now_us: int) -> bool:
        """Whether to learn if the full input is as quick as it was at first: what only runs small never would."""
        fits = now_us + self._fresh_guard_us <= latest_end_us
        return self.small_estimate is not None and fits and now_us >= self._trial_us

    def _tried(self, job: Job, *, good: bool, now_us: int) -> None:
        if job.near_small:
            return
        worse_us = min(LONGEST_TRIAL_US, 2 * self._trial_wait_us) if job.near_trial else self._trial_wait_us
        self._trial_wait_us = TRIAL_US if good else worse_us
        self._trial_us = now_us + self._trial_wait_us

    def _must_be_small(self, job: Job, now_us: int) -> bool:
        """At its start a frame gets the full input if that still fits, whatever was reserved."""
        if self.small_estimate is None or job.near_trial:
            return False
        guard_us = self.estimate.guard_us
        others = self.timeline.fits_before_others(job.key, guard_us=guard_us, now_us=now_us)
        return now_us + guard_us > job.answer_by_us or not others

    def _choose(self, first: Key, jobs: Mapping[Key, Job], now_us: int) -> Key | None:
        """The first frame that should not wait for its slot. While a picture is encoded the core is the encoder's.

        A near that is promised to no other frame has nothing to wait for but far: where that is not sure to come, a run
        that waits is hardly ever saved, and a pause of the machine while it is on makes the answer late.
        """
        if jobs[first].eager or self.claims.load.full(self.estimate.p50_us, now_us):
            return first
        alone = len(self.timeline) == 1
        for slot in self.timeline:
            key, early_us = slot.key, slot.early_us
            job = jobs[key]
            waits = early_us is None or (early_us > now_us and not (alone and not job.far_in_time(SURE_P)))
            if not job.eager and (waits or job.encoding):
                continue
            guard_us = self._estimate(small=job.near_small).guard_us
            if self.timeline.fits_before_others(key, guard_us=guard_us, now_us=now_us):
                return key
        return None
