"""The heart: every accepted frame is answered by `deadline − margin`, far if it comes, near if not.

Sans-IO: each method takes the time and an observation and returns actions; `next_us` says when `tick` is
due. Invariants: a frame is given exactly once; an offloaded frame under a hedged policy owns a near slot
until far answers; near runs one frame at a time; nothing waits on a dead link.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from edge.scheduling.actions import (
    Action,
    CancelFar,
    CancelNear,
    Encode,
    Give,
    LateFar,
    OpenFresh,
    Release,
    SendFrame,
    SendPing,
    StartNear,
)
from edge.scheduling.breaker import Breaker
from edge.scheduling.job import Far, Job, Near
from edge.scheduling.link_estimate import LinkEstimate
from edge.scheduling.near_estimate import NearEstimate
from edge.scheduling.near_timeline import Key, NearTimeline
from edge.scheduling.policies import HEDGED, POLICIES, Choice, View
from edge.scheduling.rung import Rung, RungCost
from pipelines.result import AnsweredBy, Load, Status, WorkerTiming
from pipelines.windows import SampleWindow
from protos.wire.session import Credit

SAMPLE_EVERY_US = 1_000_000
FORGET_FAR_US = 2_000_000
VANISHED_FRAMES = 3
PRIOR_COMMIT_US = 1_000
MOST_MARGIN = 0.25  # of the deadline


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSettings:
    """`deadline_us` bounds the margin; `near_accuracy` and `near_prior_us` None/0 = there is no near."""

    deadline_us: int
    margin_us: int
    policy: str
    hedge: str  # late | immediate | never
    min_p: float
    byte_price: float
    rung: Rung
    near_accuracy: float | None
    near_prior_us: int
    fall_back_above_us: int
    return_below_us: int


class Scheduler:
    """`streams` maps each stream to the cost model of its payloads."""

    def __init__(self, settings: SchedulerSettings, streams: Mapping[str, RungCost]) -> None:
        self.settings = settings
        self.link = LinkEstimate()
        self.breaker = Breaker(
            fall_back_above_us=settings.fall_back_above_us, return_below_us=settings.return_below_us
        )
        self.timeline = NearTimeline()
        self.near = NearEstimate(settings.near_prior_us)
        self._costs = streams
        self._policy = POLICIES[settings.policy]
        self._hedged = settings.policy in HEDGED and settings.hedge != "never"
        self._has_near = settings.near_accuracy is not None and settings.policy != "far_only"
        self._jobs: dict[Key, Job] = {}
        self._running: Job | None = None
        self._credit = Credit(frames=1, bytes=1 << 20)
        self._lateness = SampleWindow(2000)
        self._commits = SampleWindow(500)
        self._margin_us = settings.margin_us
        self._commit_us = PRIOR_COMMIT_US
        self._last_far_us = 0
        self._vanished = 0
        self._connection = 0
        self._out: list[Action] = []

    def __repr__(self) -> str:
        return f"<Scheduler {self.open_frames} open, {self.breaker!r}, guard {self.near.guard_us} µs>"

    # -- what is known ------------------------------------------------------------------------------------

    @property
    def open_frames(self) -> int:
        """Accepted and not yet released."""
        return sum(1 for j in self._jobs.values() if not j.given or j.release_by_us is not None)

    @property
    def margin_us(self) -> int:
        return self._margin_us

    @property
    def in_flight_bytes(self) -> int:
        return sum(j.size_bytes for j in self._jobs.values() if j.far is Far.SENT)

    # -- observations about the machine -------------------------------------------------------------------

    def woke_late(self, lateness_us: int, now_us: int) -> None:
        """The dispatcher woke `lateness_us` after it asked to; margin ≥ p99.9 of it."""
        self._lateness.add(max(0, lateness_us), now_us)
        tail_us = int(self._lateness.quantile(0.999, now_us) or 0)
        most_us = int(self.settings.deadline_us * MOST_MARGIN)
        self._margin_us = max(self.settings.margin_us, min(tail_us, most_us))

    def commit_took(self, commit_us: int, now_us: int) -> None:
        """From handing an answer to the outbox to its commit."""
        self._commits.add(commit_us, now_us)
        tail_us = int(self._commits.quantile(0.99, now_us) or 0)
        self._commit_us = min(max(tail_us, PRIOR_COMMIT_US), int(self.settings.deadline_us * MOST_MARGIN))

    # -- frames -------------------------------------------------------------------------------------------

    def offer(self, key: Key, *, captured_us: int, deadline_us: int, now_us: int) -> list[Action] | None:
        """A frame waits in its slot. None = nobody could answer it now, ask again when something changed.

        A frame whose time is up is always accepted and answered, if only `missed`.
        """
        job = Job(
            key=key,
            captured_us=captured_us,
            deadline_us=deadline_us,
            answer_by_us=deadline_us - self._margin_us,
            cost=self._costs[key[0]],
            accepted_us=now_us,
        )
        reserved = self._has_near and bool(
            self.timeline.reserve(
                key,
                guard_us=self.near.guard_us,
                latest_end_us=job.answer_by_us - self._commit_us,
                now_us=now_us,
            )
        )
        job.near = Near.RESERVED if reserved else Near.NONE
        choice = self._choose(job, now_us)
        if choice is Choice.WAIT and now_us < job.answer_by_us:
            self.timeline.release(key)
            return None
        self._jobs[key] = job
        if choice is Choice.FAR:
            self._offload(job, now_us)
        else:
            job.far_reason = job.far_reason or self._why_not_far()
            job.eager = True
        self._settle(job, now_us)
        return self._finish(now_us)

    def encoded(self, key: Key, *, size_bytes: int, encode_us: int, now_us: int) -> list[Action]:
        """The payload is ready; it is sent unless it is too late for the way there and back."""
        self._costs[key[0]].observe(size_bytes=size_bytes, encode_us=encode_us, now_us=now_us)
        job = self._jobs.get(key)
        if job is None or job.far is not Far.ENCODING:
            return self._finish(now_us)
        if not self.breaker.connected or not (self.breaker.in_budget or job.probe or self._ignores_band):
            self._far_over(job, "link over budget", now_us)
            return self._finish(now_us)
        budget_us = job.answer_by_us - now_us - self.link.rtt_min_us(now_us)
        if budget_us <= 0:
            self._far_over(job, "encoded too late", now_us)
            return self._finish(now_us)
        job.nominal_us = self.link.nominal_us(
            size_bytes=size_bytes, in_flight_bytes=self.in_flight_bytes, now_us=now_us
        )
        job.size_bytes, job.sent_us, job.far, job.connection = size_bytes, now_us, Far.SENT, self._connection
        self._last_far_us = now_us
        self._out.append(SendFrame(key, budget_us, job.probe))
        return self._finish(now_us)

    def encode_failed(self, key: Key, now_us: int) -> list[Action]:
        return self.send_failed(key, "encode failed", now_us)

    def send_failed(self, key: Key, reason: str, now_us: int) -> list[Action]:
        """The frame did not leave: near takes over at once."""
        job = self._jobs.get(key)
        if job is not None and job.far_open:
            self._far_over(job, reason, now_us)
        return self._finish(now_us)

    def result(self, key: Key, *, timing: WorkerTiming, load: Load, now_us: int) -> list[Action]:
        """A far result arrived, on whatever connection. Late ones correct the record."""
        self.link.observe_load(load)
        self.breaker.heard(now_us)
        job = self._jobs.get(key)
        if job is None:
            self._out.append(LateFar(key))
            return self._finish(now_us)
        self._vanished = 0
        if job.far is Far.SENT:
            self._measure(job, timing, now_us)
        job.far = Far.OVER
        if job.given:
            self._out.append(LateFar(key))
        else:
            if job.near is Near.RUNNING:
                self._out.append(CancelNear(key))
            self._give(job, AnsweredBy.FAR, Status.OK, "", hold=False, now_us=now_us)
        self._drop_if_done(job)
        return self._finish(now_us)

    def rejected(self, key: Key, *, reason: str, load: Load, now_us: int) -> list[Action]:
        """The worker will not answer this frame; near starts at once."""
        self.link.observe_load(load)
        self.breaker.heard(now_us)
        job = self._jobs.get(key)
        if job is not None and job.far_open:
            self._vanished = 0
            self._far_over(job, f"rejected: {reason}", now_us)
            self._drop_if_done(job)
        return self._finish(now_us)

    def near_done(self, key: Key, *, status: Status | None, run_us: int, now_us: int) -> list[Action]:
        """The near run ended: `status` None = it was cancelled."""
        self.timeline.finish(now_us)
        self._running = None
        if status is Status.OK:
            self.near.observe(run_us, now_us)
        job = self._jobs.get(key)
        if job is not None and job.near is Near.RUNNING:
            job.near = Near.HELD if status is Status.OK else Near.OVER
            job.near_status = status or Status.FAILED
            self._settle(job, now_us)
            self._drop_if_done(job)
        return self._finish(now_us)

    def committed(self, key: Key, now_us: int) -> list[Action]:
        """The outbox has the held answer."""
        job = self._jobs.get(key)
        if job is not None and job.release_by_us is not None:
            self._release(job, committed=True)
        return self._finish(now_us)

    def forget(self, key: Key, now_us: int) -> list[Action]:
        """The frame is shed after all (the agent stops): no answer will be given."""
        job = self._jobs.pop(key, None)
        self.timeline.release(key)
        if job is not None and job.near is Near.RUNNING:
            self._out.append(CancelNear(key))
        return self._finish(now_us)

    # -- the link -----------------------------------------------------------------------------------------

    def welcomed(self, connection: int, credit: Credit, now_us: int) -> list[Action]:
        self._connection = connection
        self._credit = credit
        self.breaker.welcomed(now_us)
        for job in list(self._jobs.values()):
            if job.given and job.connection != connection:
                job.far = Far.OVER  # it may still come, but no longer fills this connection
                self._drop_if_done(job)
        return self._finish(now_us)

    def disconnected(self, reason: str, now_us: int) -> list[Action]:
        """No connection is left: what was sent may be lost, near takes over at once."""
        self.breaker.lost(now_us, reason)
        for job in [j for j in self._jobs.values() if j.far_open]:
            self._far_over(job, reason, now_us)
        return self._finish(now_us)

    def pong(
        self, nonce: int, *, resident_us: int, load: Load, credit: Credit | None, now_us: int
    ) -> list[Action]:
        sent_us = self.breaker.ping_sent_us(nonce)
        self.link.observe_load(load)
        if credit is not None:
            self._credit = credit
        self.breaker.heard(now_us)
        if sent_us is not None and self.breaker.pong(nonce, now_us):
            ahead = [j for j in self._jobs.values() if j.far is Far.SENT and j.sent_us <= sent_us]
            queued_us = sum(j.size_bytes for j in ahead) / self.link.bytes_per_us(now_us) if ahead else 0.0
            rtt_us = max(0, int(now_us - sent_us - resident_us - queued_us))
            # What is subtracted is an estimate: it may excuse a round trip, it must not make a minimum.
            self.link.observe_rtt(now_us - sent_us - resident_us, now_us)
            self.breaker.round_trip(rtt_us, now_us, live=False)
        return self._finish(now_us)

    # -- time ---------------------------------------------------------------------------------------------

    def tick(self, now_us: int) -> list[Action]:
        """Do what is due by now."""
        for job in list(self._jobs.values()):
            self._check_overdue(job, now_us)
            if job.release_by_us is not None and now_us >= job.release_by_us:
                self._release(job, committed=False)
            self._settle(job, now_us)
            if job.given and job.far is Far.SENT and now_us - job.sent_us > FORGET_FAR_US:
                job.far = Far.OVER
            self._drop_if_done(job)
        nonce = self.breaker.ping_due(now_us)
        if nonce is not None:
            self._out.append(SendPing(nonce))
        if self.breaker.check(now_us):
            self._out.append(OpenFresh())
        if not self.breaker.in_budget and not self._ignores_band:
            self._abandon(now_us)
        return self._finish(now_us)

    def next_us(self) -> int | None:
        """When `tick` is due, None while there is nothing to wait for."""
        times: list[int] = []
        for job in self._jobs.values():
            if job.release_by_us is not None:
                times.append(job.release_by_us)
            if not job.given:
                times.append(job.answer_by_us - self._commit_us if job.near is Near.HELD else job.give_up_us)
            if job.far is Far.SENT and not job.overdue:
                times.append(job.answer_by_us)
        first = self.timeline.first()
        if first is not None and self._running is None:
            times.append(first.start_us)
        breaker_us = self.breaker.next_us()
        if breaker_us is not None:
            times.append(breaker_us)
        return min(times, default=None)

    # -- inside -------------------------------------------------------------------------------------------

    @property
    def _ignores_band(self) -> bool:
        return self.settings.policy == "far_only"

    def _choose(self, job: Job, now_us: int) -> Choice:
        reserved = job.near is Near.RESERVED
        if (reserved or not self._has_near) and self.settings.policy in HEDGED | {"threshold"}:
            job.probe = self.breaker.probe_due(now_us)
            if job.probe:
                return Choice.FAR
        size_bytes = job.cost.size_bytes(now_us)
        in_flight = self.in_flight_bytes
        flying = sum(1 for j in self._jobs.values() if j.far_open)
        has_credit = flying < self._credit.frames and in_flight + size_bytes <= self._credit.bytes
        remaining_us = job.answer_by_us - now_us - job.cost.encode_us(now_us)
        return self._policy(
            View(
                near_slot=reserved,
                has_near=self._has_near,
                far_possible=self.breaker.connected and self.breaker.in_budget and has_credit,
                connected=self.breaker.connected and has_credit,
                p_far=self.link.p_on_time(
                    size_bytes=size_bytes, in_flight_bytes=in_flight, remaining_us=remaining_us, now_us=now_us
                ),
                far_accuracy=self.settings.rung.accuracy,
                near_accuracy=self.settings.near_accuracy or 0.0,
                size_bytes=size_bytes,
                byte_price=self.settings.byte_price,
                min_p=self.settings.min_p,
                sample_due=now_us - self._last_far_us >= SAMPLE_EVERY_US,
            )
        )

    def _why_not_far(self) -> str:
        if self.settings.policy == "near_only":
            return ""
        if not self.breaker.in_budget:
            return self.breaker.reason
        return "near is worth more now"

    def _offload(self, job: Job, now_us: int) -> None:
        job.far = Far.ENCODING
        if job.probe:
            self.breaker.probe_sent(job.key, now_us)
        if not (self._hedged or job.probe):
            self.timeline.release(job.key)
            job.near = Near.NONE
        job.eager = self._hedged and self.settings.hedge == "immediate"
        self._out.append(Encode(job.key))

    def _measure(self, job: Job, timing: WorkerTiming, now_us: int) -> None:
        rtt_us = self.link.observe_frame(
            size_bytes=job.size_bytes,
            sent_us=job.sent_us,
            arrived_us=now_us,
            nominal_us=job.nominal_us,
            timing=timing,
        )
        self.breaker.round_trip(rtt_us, now_us, live=True)
        if job.probe and self.breaker.probe_ended(job.key, rtt_us=rtt_us, now_us=now_us):
            self.link.forget_slowness(now_us, keep=2)

    def _check_overdue(self, job: Job, now_us: int) -> None:
        """An unanswered frame at its answer time counts against the link, once."""
        if job.far is not Far.SENT or job.overdue or now_us < job.answer_by_us:
            return
        job.overdue = True
        self.link.observe_overdue(sent_us=job.sent_us, nominal_us=job.nominal_us, now_us=now_us)
        self.breaker.frame_overdue(now_us)
        if job.probe:
            self.breaker.probe_ended(job.key, rtt_us=None, now_us=now_us)
        self._vanished += 1
        if self._vanished >= VANISHED_FRAMES and self.breaker.pings_pass(since_us=job.sent_us):
            self.breaker.frames_vanish(now_us)

    def _abandon(self, now_us: int) -> None:
        """Over budget: no open frame waits for far any longer, except probes."""
        for job in self._jobs.values():
            if job.far_open and not job.given and not job.probe and not job.eager:
                job.eager = True
                job.far_reason = self.breaker.reason
                self._settle(job, now_us)

    def _far_over(self, job: Job, reason: str, now_us: int) -> None:
        if job.probe:
            self.breaker.probe_ended(job.key, rtt_us=None, now_us=now_us)
        job.far = Far.OVER
        job.far_reason = reason
        job.eager = True
        self._settle(job, now_us)

    def _settle(self, job: Job, now_us: int) -> None:
        """Give what can be given by now."""
        if job.given:
            return
        far_hopeful = job.far_open and not (job.eager and self._hedge_is_late)
        if job.near is Near.HELD:
            if not far_hopeful or now_us >= job.answer_by_us - self._commit_us:
                self._give(job, AnsweredBy.NEAR, Status.OK, job.far_reason, hold=True, now_us=now_us)
            return
        nobody = not job.far_open and job.near in (Near.NONE, Near.OVER)
        if nobody and self._has_near and job.near is Near.NONE and self._late_reservation(job, now_us):
            return
        if nobody or now_us >= job.give_up_us:
            if job.near is Near.RUNNING:
                self._out.append(CancelNear(job.key))
            status = job.near_status if job.near is Near.OVER else Status.TIMEOUT
            reason = job.far_reason or ("far not back in time" if job.far_open else "no time for near")
            if job.far_open and not job.cancelled_far:
                job.cancelled_far = True
                if job.far is Far.SENT:
                    self._out.append(CancelFar(job.key))
            self._give(job, AnsweredBy.MISSED, status, reason, hold=True, now_us=now_us)

    @property
    def _hedge_is_late(self) -> bool:
        """With an immediate hedge `eager` says nothing about far."""
        return self.settings.hedge != "immediate"

    def _late_reservation(self, job: Job, now_us: int) -> bool:
        """Far ended without an answer and nothing was reserved: near may still make it."""
        slot = self.timeline.reserve(
            job.key,
            guard_us=self.near.guard_us,
            latest_end_us=job.answer_by_us - self._commit_us,
            now_us=now_us,
        )
        if slot is not None:
            job.near = Near.RESERVED
            job.eager = True
        return slot is not None

    def _give(
        self, job: Job, by: AnsweredBy, status: Status, reason: str, *, hold: bool, now_us: int
    ) -> None:
        self.timeline.release(job.key)
        if job.near is not Near.RUNNING:
            job.near = Near.OVER
        job.given = True
        if hold:
            late = now_us >= job.answer_by_us
            job.release_by_us = max(job.deadline_us, now_us + self._commit_us) if late else job.answer_by_us
        self._out.append(Give(job.key, by, status, reason, hold))

    def _release(self, job: Job, *, committed: bool) -> None:
        job.release_by_us = None
        self._out.append(Release(job.key, committed))
        self._drop_if_done(job)

    def _drop_if_done(self, job: Job) -> None:
        """A given frame is kept only while near still runs it or far may still answer late."""
        done = job.given and job.release_by_us is None
        if done and job.near is not Near.RUNNING and not job.far_open:
            self._jobs.pop(job.key, None)

    def _start_near(self, now_us: int) -> None:
        if self._running is not None:
            return
        first = self.timeline.first()
        if first is None:
            return
        candidates = [first.key] if first.start_us <= now_us or self._jobs[first.key].eager else []
        guard_us = self.near.guard_us
        candidates += [
            s.key
            for s in self.timeline.slots
            if self._jobs[s.key].eager
            and self.timeline.fits_before_others(s.key, guard_us=guard_us, now_us=now_us)
        ]
        if not candidates:
            return
        job = self._jobs[candidates[0]]
        slot = self.timeline.get(job.key)
        due_us = now_us if slot is None else min(now_us, slot.start_us)
        self.timeline.begin(job.key, guard_us=guard_us, now_us=now_us)
        job.near = Near.RUNNING
        self._running = job
        self._out.append(StartNear(job.key, due_us))

    def _finish(self, now_us: int) -> list[Action]:
        self._start_near(now_us)
        out, self._out = self._out, []
        return out
