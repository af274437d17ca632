"""The near way: one serial detector, its timeline, how long it takes, and which frame it runs next."""

from collections.abc import Mapping

from edge.scheduling.actions import StartNear
from edge.scheduling.job import Job, Near
from edge.scheduling.near_estimate import NearEstimate
from edge.scheduling.near_timeline import Key, NearTimeline
from pipelines.result import Status


class NearWay:
    """`prior_us` is a run's time before the first was seen; `exists` False = this gateway has no near."""

    def __init__(self, *, prior_us: int, exists: bool) -> None:
        self.exists = exists
        self.timeline = NearTimeline()
        self.estimate = NearEstimate(prior_us)
        self._running: Job | None = None

    def reserve(self, job: Job, *, latest_end_us: int, now_us: int) -> bool:
        """Keep near time for `job` that ends by `latest_end_us`; False if there is none.

        An idle near also takes a frame that only its median run would make, and any frame while its median
        makes none: a run that may be late beats no answer, and without runs the guard would never learn that
        near is quick again.
        """
        if not self.exists:
            return False
        guard_us = self.estimate.guard_us
        idle = self._running is None and not self.timeline.slots
        p50_us = self.estimate.p50_us
        worth_a_try = now_us + p50_us <= latest_end_us or p50_us > latest_end_us - job.captured_us
        if idle and worth_a_try and now_us < latest_end_us < now_us + guard_us:
            guard_us = latest_end_us - now_us
        slot = self.timeline.reserve(job.key, guard_us=guard_us, latest_end_us=latest_end_us, now_us=now_us)
        job.near = Near.NONE if slot is None else Near.RESERVED
        return slot is not None

    def release(self, job: Job) -> None:
        self.timeline.release(job.key)

    def ended(self, *, status: Status | None, run_us: int, now_us: int) -> None:
        """The run that was on has ended; only whole runs say how long near takes."""
        self.timeline.finish(now_us)
        self._running = None
        if status is Status.OK:
            self.estimate.observe(run_us, now_us)

    def start_next(self, jobs: Mapping[Key, Job], now_us: int) -> StartNear | None:
        """The run to start now: a slot that is due, or an eager frame that is over before any other's slot."""
        first = self.timeline.first()
        if self._running is not None or first is None:
            return None
        key = self._choose(first.key, jobs, now_us) if first.start_us > now_us else first.key
        slot = None if key is None else self.timeline.get(key)
        if slot is None:
            return None
        self.timeline.begin(slot.key, guard_us=self.estimate.guard_us, now_us=now_us)
        self._running = jobs[slot.key]
        self._running.near = Near.RUNNING
        return StartNear(slot.key, min(now_us, slot.start_us))

    def due_us(self) -> int | None:
        """When the next slot starts, None while near is busy or nothing is reserved."""
        first = self.timeline.first()
        return None if first is None or self._running is not None else first.start_us

    def _choose(self, first: Key, jobs: Mapping[Key, Job], now_us: int) -> Key | None:
        if jobs[first].eager:
            return first
        guard_us = self.estimate.guard_us
        for slot in self.timeline.slots:
            if jobs[slot.key].eager and self.timeline.fits_before_others(
                slot.key, guard_us=guard_us, now_us=now_us
            ):
                return slot.key
        return None
