"""The heart: every accepted frame is answered by `deadline − margin`, far if it comes, near if not.

Sans-IO: each method takes the time and an observation and returns actions; `next_us` says when `tick` is
due. Invariants: a frame is given exactly once; an offloaded frame under a hedged policy owns a near slot
until far answers; near runs one frame at a time; nothing waits on a dead link.
"""

from collections.abc import Mapping

from edge.scheduling.actions import Action, CancelNear, Encode, LateFar, OpenFresh, SendFrame, SendPing
from edge.scheduling.answering import Answering
from edge.scheduling.far_way import FarWay
from edge.scheduling.job import Far, Job, Near
from edge.scheduling.near_timeline import Key
from edge.scheduling.near_way import NearWay
from edge.scheduling.policies import HEDGED, POLICIES, Choice, View
from edge.scheduling.rung import RungCost
from edge.scheduling.settings import SchedulerSettings
from edge.scheduling.wake_up import WakeUp
from pipelines.result import AnsweredBy, Load, Status, WorkerTiming
from protos.wire.session import Credit


class Scheduler:
    """`streams` maps each stream to the cost model of its payloads."""

    def __init__(self, settings: SchedulerSettings, streams: Mapping[str, RungCost]) -> None:
        self.settings = settings
        self.far = FarWay(
            fall_back_above_us=settings.fall_back_above_us, return_below_us=settings.return_below_us
        )
        self.near = NearWay(
            prior_us=settings.near_prior_us,
            exists=settings.near_accuracy is not None and settings.policy != "far_only",
        )
        self.wake_up = WakeUp(deadline_us=settings.deadline_us, margin_us=settings.margin_us)
        self._costs = streams
        self._policy = POLICIES[settings.policy]
        self._hedged = settings.policy in HEDGED and settings.hedge != "never"
        self._ignores_band = settings.policy == "far_only"
        self._jobs: dict[Key, Job] = {}
        self._out: list[Action] = []
        self._answering = Answering(jobs=self._jobs, near=self.near, wake_up=self.wake_up, out=self._out)

    def __repr__(self) -> str:
        guard_us = self.near.estimate.guard_us
        return f"<Scheduler {self.open_frames} open, {self.far.breaker!r}, guard {guard_us} µs>"

    @property
    def open_frames(self) -> int:
        """Accepted and not yet released."""
        return sum(1 for j in self._jobs.values() if not j.given or j.release_by_us is not None)

    @property
    def in_flight_bytes(self) -> int:
        return self.far.in_flight_bytes(self._jobs.values())

    # -- frames -------------------------------------------------------------------------------------------

    def offer(self, key: Key, *, captured_us: int, deadline_us: int, now_us: int) -> list[Action] | None:
        """A frame waits in its slot. None = near or the worker's window is full, ask again when something
        changed.

        A frame whose time is up, or that nobody could answer by waiting, is accepted and honestly missed.
        """
        job = Job(
            key=key,
            captured_us=captured_us,
            deadline_us=deadline_us,
            answer_by_us=deadline_us - self.wake_up.margin_us,
            cost=self._costs[key[0]],
            accepted_us=now_us,
        )
        self._answering.reserve(job, now_us)
        choice = self._choose(job, now_us)
        if choice is Choice.WAIT and now_us < job.answer_by_us and self._may_become_free:
            self.near.release(job)
            return None
        self._jobs[key] = job
        if choice is Choice.FAR:
            self._offload(job, now_us)
        else:
            job.far_reason = self._why_not_far()
            job.eager = True
        self._answering.settle(job, now_us)
        return self._finish(now_us)

    def encoded(self, key: Key, *, size_bytes: int, encode_us: int, now_us: int) -> list[Action]:
        """The payload is ready; it is sent unless it is too late for the way there and back."""
        self._costs[key[0]].observe(size_bytes=size_bytes, encode_us=encode_us, now_us=now_us)
        job = self._jobs.get(key)
        if job is None or job.far is not Far.ENCODING:
            return self._finish(now_us)
        breaker = self.far.breaker
        allowed = breaker.in_budget or job.probe or self._ignores_band
        budget_us = job.answer_by_us - now_us - self.far.link.rtt_min_us(now_us)
        if not (breaker.connected and allowed):
            self._far_over(job, "link over budget", now_us)
        elif budget_us <= 0:
            self._far_over(job, "encoded too late", now_us)
        else:
            self.far.sent(job, size_bytes=size_bytes, in_flight_bytes=self.in_flight_bytes, now_us=now_us)
            self._out.append(SendFrame(key, budget_us, job.probe))
        return self._finish(now_us)

    def send_failed(self, key: Key, reason: str, now_us: int) -> list[Action]:
        """The frame was not encoded or did not leave: near takes over at once."""
        job = self._jobs.get(key)
        if job is not None and job.far_open:
            self._far_over(job, reason, now_us)
        return self._finish(now_us)

    def result(self, key: Key, *, timing: WorkerTiming, load: Load, now_us: int) -> list[Action]:
        """A far result arrived, on whatever connection. Late ones correct the record."""
        job = self._jobs.get(key)
        self.far.heard(load, now_us, of_a_frame=job is not None)
        if job is None:
            self._out.append(LateFar(key))
            return self._finish(now_us)
        if job.far is Far.SENT:
            self.far.measure(job, timing, now_us)
        job.far = Far.OVER
        if job.given:
            self._out.append(LateFar(key))
        else:
            if job.near is Near.RUNNING:
                self._out.append(CancelNear(key))
            self._answering.give(job, AnsweredBy.FAR, Status.OK, "", hold=False, now_us=now_us)
        self._answering.drop_if_done(job)
        return self._finish(now_us)

    def rejected(self, key: Key, *, reason: str, load: Load, now_us: int) -> list[Action]:
        """The worker will not answer this frame; near starts at once."""
        job = self._jobs.get(key)
        self.far.heard(load, now_us, of_a_frame=job is not None)
        if job is not None and job.far_open:
            self._far_over(job, f"rejected: {reason}", now_us)
            self._answering.drop_if_done(job)
        return self._finish(now_us)

    def near_done(self, key: Key, *, status: Status | None, run_us: int, now_us: int) -> list[Action]:
        """The near run ended: `status` None = it was cancelled."""
        self.near.ended(status=status, run_us=run_us, now_us=now_us)
        job = self._jobs.get(key)
        if job is not None and job.near is Near.RUNNING:
            job.near = Near.HELD if status is Status.OK else Near.OVER
            job.near_status = status or Status.FAILED
            self._answering.settle(job, now_us)
            self._answering.drop_if_done(job)
        return self._finish(now_us)

    def committed(self, key: Key, now_us: int) -> list[Action]:
        """The outbox has the held answer."""
        job = self._jobs.get(key)
        if job is not None and job.release_by_us is not None:
            self._answering.release(job, committed=True)
        return self._finish(now_us)

    def forget(self, key: Key, now_us: int) -> list[Action]:
        """The frame is shed after all (the agent stops): no answer will be given."""
        job = self._jobs.pop(key, None)
        if job is not None:
            self.far.failed(job, now_us)
            self.near.release(job)
            if job.near is Near.RUNNING:
                self._out.append(CancelNear(key))
        return self._finish(now_us)

    # -- the link -----------------------------------------------------------------------------------------

    def welcomed(self, connection: int, credit: Credit, now_us: int) -> list[Action]:
        self.far.welcomed(connection, credit, now_us)
        return self.tick(now_us)

    def disconnected(self, reason: str, now_us: int) -> list[Action]:
        """No connection is left: what was sent may be lost, near takes over at once."""
        self.far.breaker.lost(now_us, reason)
        for job in [j for j in self._jobs.values() if j.far_open]:
            self._far_over(job, reason, now_us)
            self._answering.drop_if_done(job)
        return self._finish(now_us)

    def pong(
        self, nonce: int, *, resident_us: int, load: Load, credit: Credit | None, now_us: int
    ) -> list[Action]:
        jobs = self._jobs.values()
        self.far.pong(nonce, resident_us=resident_us, load=load, credit=credit, jobs=jobs, now_us=now_us)
        return self._finish(now_us)

    # -- time ---------------------------------------------------------------------------------------------

    def tick(self, now_us: int) -> list[Action]:
        """Do what is due by now."""
        for job in list(self._jobs.values()):
            if job.far is Far.SENT and not job.overdue and now_us >= job.answer_by_us:
                self.far.overdue(job, now_us)
            if job.release_by_us is not None and now_us >= job.release_by_us:
                self._answering.release(job, committed=False)
            self._answering.settle(job, now_us)
            if self.far.left_behind(job, now_us):
                self.far.failed(job, now_us)
                job.far = Far.OVER
            self._answering.drop_if_done(job)
        nonce = self.far.breaker.ping_due(now_us)
        if nonce is not None:
            self._out.append(SendPing(nonce))
        if self.far.breaker.check(now_us):
            self._out.append(OpenFresh())
        if not self.far.breaker.in_budget and not self._ignores_band:
            self._abandon(now_us)
        return self._finish(now_us)

    def next_us(self) -> int | None:
        """When `tick` is due, None while there is nothing to wait for."""
        times = [self.near.due_us(), self.far.breaker.next_us()]
        for job in self._jobs.values():
            times.append(job.release_by_us)
            if not job.given:
                held = job.near is Near.HELD
                times.append(job.answer_by_us - self.wake_up.commit_us if held else job.give_up_us)
            if job.far is Far.SENT and not job.overdue:
                times.append(job.answer_by_us)
        return min((t for t in times if t is not None), default=None)

    # -- inside -------------------------------------------------------------------------------------------

    @property
    def _may_become_free(self) -> bool:
        """Whether waiting can help a frame that nobody could take: near busy, or the worker's window full."""
        breaker = self.far.breaker
        return self.near.exists or (breaker.connected and (breaker.in_budget or self._ignores_band))

    def _choose(self, job: Job, now_us: int) -> Choice:
        reserved = job.near is Near.RESERVED
        breaker = self.far.breaker
        if (reserved or not self.near.exists) and self.settings.policy in HEDGED | {"threshold"}:
            job.probe = breaker.probe_due(now_us)
            if job.probe:
                return Choice.FAR
        size_bytes = job.cost.size_bytes(now_us)
        has_credit = self.far.has_credit(self._jobs.values(), size_bytes)
        return self._policy(
            View(
                near_slot=reserved,
                far_possible=breaker.connected and breaker.in_budget and has_credit,
                connected=breaker.connected and has_credit,
                p_far=self.far.link.p_on_time(
                    size_bytes=size_bytes,
                    in_flight_bytes=self.in_flight_bytes,
                    remaining_us=job.answer_by_us - now_us - job.cost.encode_us(now_us),
                    now_us=now_us,
                ),
                far_accuracy=self.settings.rung.accuracy,
                near_accuracy=self.settings.near_accuracy or 0.0,
                size_bytes=size_bytes,
                byte_price=self.settings.byte_price,
                min_p=self.settings.min_p,
                sample_due=self.far.sample_due(now_us),
            )
        )

    def _why_not_far(self) -> str:
        if self.settings.policy == "near_only":
            return ""
        return self.far.breaker.reason or "near is worth more now"

    def _offload(self, job: Job, now_us: int) -> None:
        job.far = Far.ENCODING
        if job.probe:
            self.far.breaker.probe_sent(job.key, now_us)
        if not (self._hedged or job.probe):
            self.near.release(job)
            job.near = Near.NONE
        job.eager = self._hedged and self.settings.hedge == "immediate"
        self._out.append(Encode(job.key))

    def _abandon(self, now_us: int) -> None:
        """Over budget: no open frame waits for far any longer, except probes."""
        for job in list(self._jobs.values()):
            if job.far_open and not job.given and not job.probe and not job.abandoned:
                job.abandoned = job.eager = True
                job.far_reason = self.far.breaker.reason
                self._answering.settle(job, now_us)

    def _far_over(self, job: Job, reason: str, now_us: int) -> None:
        self.far.failed(job, now_us)
        job.far = Far.OVER
        job.far_reason = reason
        job.eager = True
        self._answering.settle(job, now_us)

    def _finish(self, now_us: int) -> list[Action]:
        start = self.near.start_next(self._jobs, now_us)
        if start is not None:
            self._out.append(start)
        out = list(self._out)
        self._out.clear()
        return out
