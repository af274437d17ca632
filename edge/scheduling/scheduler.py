"""The heart: every accepted frame is answered by `deadline − margin`, far if it comes, near if not.

Sans-IO: each method takes the time and an observation and returns actions; `next_us` says when `tick` is
due. Invariants: a frame ends exactly once; an offloaded frame under a hedged policy owns a near slot until
far answers, or was weighed against what it has instead; near runs one frame at a time; nothing waits on a
dead link.
"""

from collections.abc import Iterable, Mapping

from edge.scheduling.actions import Action, LateFar, OpenFresh, SendPing, Shed
from edge.scheduling.decision import Decision
from edge.scheduling.far.way import FarWay
from edge.scheduling.job import HELD, NONE, OVER, RESERVED, RUNNING, Job
from edge.scheduling.job_table import JobTable
from edge.scheduling.key import Key
from edge.scheduling.near.way import NearWay
from edge.scheduling.offload import Offload
from edge.scheduling.policies import ASKS_AFTER_NEAR, HEDGED
from edge.scheduling.settings import SchedulerSettings, StreamSettings
from edge.scheduling.stream import Stream
from edge.scheduling.wake_up import WakeUp
from pipelines.result import AnsweredBy, Detections, Load, Priority, Status, WorkerTiming
from protos.wire.session import Credit, RejectReason


class Scheduler:
    """`ways` are the far ways by link name, `near` the near one; both may be read by anyone."""

    def __init__(self, settings: SchedulerSettings, streams: Mapping[str, StreamSettings]) -> None:
        self.settings = settings
        self.ways = {
            link.name: FarWay(
                link,
                fall_back_above_us=settings.fall_back_above_us,
                return_below_us=settings.return_below_us,
                weights=settings.weights,
            )
            for link in settings.links
        }
        self._breakers = [way.breaker for way in self.ways.values()]
        self.near = NearWay(
            prior_us=settings.near_prior_us,
            exists=settings.near_accuracy is not None and settings.policy != "far_only",
            small=settings.small_near,
            weights=settings.weights,
        )
        self.wake_up = WakeUp(deadline_us=settings.deadline_us, margin_us=settings.margin_us)
        self._streams = {name: Stream(stream, settings.ladder) for name, stream in streams.items()}
        self._table = JobTable(settings, self.near, self.wake_up, self._streams)
        self._decision = Decision(settings, self.ways)
        self._offload = Offload(settings, self._table, self.ways, self._decision)
        self._next_us: int | None = None
        self._next_known = False

    def __repr__(self) -> str:
        guard_us = self.near.estimate.guard_us
        return f"<Scheduler {self.open_frames} open, {[*self.ways.values()]}, guard {guard_us} µs>"

    @property
    def open_frames(self) -> int:
        """Accepted and not yet released."""
        return len(self._table)

    def priority(self, stream: str, now_us: int) -> Priority:
        """How much the next frame of `stream` matters."""
        return self._streams[stream].priority(now_us)

    def priority_of(self, stream: str, detections: Detections, size_px: tuple[int, int]) -> Priority:
        """How much a frame of `stream` matters by what its own answer showed."""
        return self._streams[stream].priority_of(detections, size_px)

    def lag_us(self) -> dict[str, int]:
        """How far the answers of each stream are behind its newest frame."""
        return {name: stream.lag_us for name, stream in self._streams.items()}

    def by_claim(self, streams: Iterable[str], now_us: int) -> list[str]:
        """In which order waiting streams should be offered: by priority and what they had, 4:2:1."""
        share = self.near.claims.share
        return sorted(streams, key=lambda name: (share.rank(name, self.priority(name, now_us), now_us), name))

    # -- frames -------------------------------------------------------------------------------------------

    def offer(self, key: Key, *, captured_us: int, deadline_us: int, now_us: int) -> list[Action] | None:
        """A frame waits in its slot. None = near or the worker's window is full, ask again when something
        changed.

        A frame whose time is up, or that nobody could answer by waiting, is accepted and honestly missed;
        one that only others kept from near is shed.
        """
        stream = self._streams[key[0]]
        stream.offered(captured_us)
        job = Job(
            key=key,
            captured_us=captured_us,
            deadline_us=deadline_us,
            answer_by_us=deadline_us - self.wake_up.margin_us,
            accepted_us=now_us,
            priority=stream.priority(now_us),
            cost=stream.cost,
        )
        self.near.claims.asked(job, now_us)
        if not self._table.reserve(job, now_us):
            self._table.make_room(job, now_us, hopeful_only=True)
        option = self._offload.choose_making_room(job, near_exists=self.near.exists, now_us=now_us)
        if option is None and job.near is NONE:
            patient = now_us < self._table.carrying.patience_us(key, job.answer_by_us)
            if patient and (self.near.exists or self._decision.hopes(job, now_us)):
                return None
            reason = None if patient else self.near.claims.why_shed(job)
            if reason is not None and not self._table.carrying.trackable(key):
                self._table.out.append(Shed(key, reason))
                return self._finish(now_us)
        self._table.add(job)
        if option is not None:
            self._offload.start(job, option, now_us)
        else:
            job.eager = True
        self._table.settle(job, now_us)
        return self._finish(now_us)

    def waits_until_us(self, key: Key, deadline_us: int) -> int:
        """When a frame that was not taken has to be offered for the last time."""
        return self._table.carrying.patience_us(key, deadline_us - self.wake_up.margin_us)

    def encoded(self, key: Key, *, size_bytes: int, encode_us: int, now_us: int) -> list[Action]:
        """The payload is ready; it is sent unless it is too late, or its real size makes it not worth it."""
        job = self._table.get(key)
        if job is None or not job.encoding:
            return self._finish(now_us)
        job.cost.observe(job.rung, size_bytes=size_bytes, encode_us=encode_us)
        job.size_bytes = size_bytes
        self._offload.encoded(job, now_us)
        self._table.drop_if_done(job)
        return self._finish(now_us)

    def send_failed(self, key: Key, reason: str, now_us: int, *, link: str | None = None) -> list[Action]:
        """The frame was not encoded (`link` None) or did not leave: near takes over at once."""
        job = self._table.get(key)
        if job is not None:
            for name in [link] if link is not None else list(job.flights):
                self._offload.failed(job, self.ways[name], reason, now_us)
            self._table.drop_if_done(job)
        return self._finish(now_us)

    def result(self, key: Key, *, link: str, timing: WorkerTiming, load: Load, now_us: int) -> list[Action]:
        """A far result arrived, on whatever connection. Late ones correct the record."""
        job = self._table.get(key)
        way = self.ways[link]
        way.heard(load, now_us, of_a_frame=job is not None)
        if (job is None or job.given is not None) and key[0] in self._streams:
            self._streams[key[0]].corrected(key[1])
        if job is None:
            self._table.out.append(LateFar(key))
            return self._finish(now_us)
        way.arrived(job, timing, now_us)
        if job.given is None:
            self._table.give(job, AnsweredBy.FAR, Status.OK, "", now_us=now_us, link=link)
            self._offload.answered(job)
        elif job.given is not AnsweredBy.FAR:
            self._table.out.append(LateFar(key))
        self._table.drop_if_done(job)
        return self._finish(now_us)

    def rejected(self, key: Key, *, link: str, reason: str, load: Load, now_us: int) -> list[Action]:
        """The worker will not answer this frame; near starts at once."""
        job = self._table.get(key)
        # A worker also says `expired` of a small head whose body never came: that proves no frame crossed.
        self.ways[link].heard(load, now_us, of_a_frame=job is not None and reason != RejectReason.EXPIRED)
        if job is not None:
            self._offload.failed(job, self.ways[link], f"rejected: {reason}", now_us)
            self._table.drop_if_done(job)
        return self._finish(now_us)

    def near_done(
        self, key: Key, *, status: Status | None, run_us: int, now_us: int, confidence: float | None = None
    ) -> list[Action]:
        """The near run ended: `status` None = it was cancelled. `confidence` in 0..1: how sure near is of what
        it saw, for the policy that asks far about the rest."""
        self.near.ended(status=status, run_us=run_us, now_us=now_us)
        job = self._table.get(key)
        # A run that was stopped and is done all the same has an answer, whatever was kept for its frame meanwhile.
        done = status is Status.OK and job is not None and job.near in (NONE, RESERVED)
        if job is not None and (done or job.near is RUNNING):
            self.near.release(job)
            job.near = HELD if status is Status.OK else OVER
            job.near_status = status or Status.FAILED
            job.near_confidence = confidence
            if status is None and job.near_again and job.given is None:
                self._table.run_again(job, now_us)
            asks = self.settings.policy in ASKS_AFTER_NEAR and confidence is not None
            if asks and job.given is None and not job.far_open and job.near is HELD:
                option = self._decision.best(job, fallback=self._table.fallback(job), now_us=now_us)
                if option is not None:
                    self._offload.start(job, option, now_us)
            self._table.settle(job, now_us)
            self._table.drop_if_done(job)
        return self._finish(now_us)

    def committed(self, key: Key, now_us: int, *, kept: bool = True) -> list[Action]:
        """The outbox has the held answer; not `kept`: only in memory, and there is no use in waiting for its commit."""
        job = self._table.get(key)
        if job is not None and job.release_by_us is not None:
            self._table.release(job, committed=kept)
        return self._finish(now_us)

    def tracked(self, took_us: int) -> None:
        """An answer was carried forward, `took_us` after it was ordered."""
        self._table.carrying.observe(took_us)

    def saw(
        self, stream: str, detections: Detections, now_us: int, size_px: tuple[int, int] | None = None
    ) -> None:
        """What the last answer of `stream` showed in a picture of `size_px`: its priority rules look at it."""
        self._streams[stream].saw(detections, now_us, size_px)

    def forget(self, key: Key, now_us: int) -> list[Action]:
        """The frame is shed after all (the agent stops): no answer will be given."""
        job = self._table.pop(key)
        if job is not None:
            self._offload.forget(job, now_us)
        return self._finish(now_us)

    # -- links --------------------------------------------------------------------------------------------

    def welcomed(self, link: str, connection: int, credit: Credit, now_us: int) -> list[Action]:
        self.ways[link].welcomed(connection, credit, now_us)
        return self.tick(now_us)

    def disconnected(self, link: str, reason: str, now_us: int) -> list[Action]:
        """No connection is left: what was sent may be lost, near takes over at once."""
        way = self.ways[link]
        way.breaker.lost(now_us, reason)
        for key in list(way.flights):
            job = self._table.get(key)
            if job is not None:
                self._offload.failed(job, way, reason, now_us)
                self._table.drop_if_done(job)
        return self._finish(now_us)

    def pong(
        self, link: str, nonce: int, *, resident_us: int, load: Load, credit: Credit | None, now_us: int
    ) -> list[Action]:
        self.ways[link].pong(nonce, resident_us=resident_us, load=load, credit=credit, now_us=now_us)
        return self._finish(now_us)

    def selective(self, link: str) -> bool:
        """Whether `link` is over budget and frames that look worth it go over it all the same."""
        way = self.ways[link]
        return self.settings.policy in HEDGED and not way.breaker.in_budget and self._decision.usable(way)

    def spent(self, link: str, size_bytes: int, now_us: int) -> None:
        """Something else was sent on `link` (backfill, acks): the data budget covers everything."""
        self.ways[link].budget.spend(size_bytes, now_us)

    # -- time ---------------------------------------------------------------------------------------------

    def tick(self, now_us: int) -> list[Action]:
        """Do what is due by now."""
        for job in self._table:
            if self._table.waits(job, now_us):
                continue
            self._offload.due(job, now_us)
            self._table.tick(job, now_us)
            self._table.drop_if_done(job)
        for way in self.ways.values():
            if way.breaker.quiet(now_us) and not way.budget.limited:
                continue
            nonce = way.ping(now_us)
            if nonce is not None:
                self._table.out.append(SendPing(way.name, nonce))
            reason = way.breaker.check(now_us)
            if reason is not None:
                self._table.out.append(OpenFresh(way.name, reason))
            if not self._decision.usable(way):
                self._offload.abandon(way, now_us)
        return self._finish(now_us)

    def next_us(self) -> int | None:
        """When `tick` is due, None while there is nothing to wait for."""
        if not self._next_known:
            next_us = self._table.next_us()
            due_us = self.near.due_us()
            if due_us is not None and (next_us is None or due_us < next_us):
                next_us = due_us
            for breaker in self._breakers:
                due_us = breaker.next_us()
                if due_us is not None and (next_us is None or due_us < next_us):
                    next_us = due_us
            self._next_us = next_us
            self._next_known = True
        return self._next_us

    # -- inside -------------------------------------------------------------------------------------------

    def _finish(self, now_us: int) -> list[Action]:
        self._next_known = False
        return self._table.finish(now_us)
