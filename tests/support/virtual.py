"""A world in virtual time around the scheduler: near, codec, link and outbox as scripted delays.

It carries out actions exactly as the dispatcher does and checks the promises while it runs.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count, pairwise

from edge.scheduling import actions
from edge.scheduling.near_timeline import Key
from edge.scheduling.rung import Rung, RungCost
from edge.scheduling.scheduler import Scheduler
from edge.scheduling.settings import SchedulerSettings
from pipelines.result import AnsweredBy, Load, Status, WorkerTiming
from protos.wire.session import Credit

MS = 1000
FRAME_BYTES = 20_000


def settings(**changes: object) -> SchedulerSettings:
    values: dict[str, object] = {
        "deadline_us": 100 * MS,
        "margin_us": 4 * MS,
        "policy": "deadline",
        "hedge": "late",
        "min_p": 0.25,
        "byte_price": 0.0015,
        "rung": Rung(codec="jpeg", quality=50, scale=1.0, accuracy=1.0),
        "near_accuracy": 0.5,
        "near_prior_us": 20 * MS,
        "fall_back_above_us": 100 * MS,
        "return_below_us": 50 * MS,
    }
    return SchedulerSettings(**(values | changes))  # type: ignore[arg-type]


@dataclass
class World:
    """`rtt_us(now)` None = the packet is lost; `near_us(now)` how long a near run takes."""

    scheduler: Scheduler
    rtt_us: Callable[[int], int | None] = lambda _: 20 * MS
    near_us: Callable[[int], int] = lambda _: 20 * MS
    worker_us: Callable[[int], int] = lambda _: 20 * MS
    encode_us: int = 2 * MS
    commit_us: int | None = 200
    bytes_per_us: float = 12.5
    now_us: int = 1_000_000
    given: dict[Key, actions.Give] = field(default_factory=dict)
    released: dict[Key, tuple[int, AnsweredBy]] = field(default_factory=dict)
    deadlines: dict[Key, int] = field(default_factory=dict)
    late_far: list[Key] = field(default_factory=list)
    waiting: dict[str, Key] = field(default_factory=dict)
    shed: list[Key] = field(default_factory=list)
    pings: int = 0
    fresh: int = 0
    near_busy: Key | None = None
    sent_bytes: int = 0
    offloaded: list[tuple[int, Key, bool]] = field(default_factory=list)
    _events: list[tuple[int, int, Callable[[], list[actions.Action] | None]]] = field(default_factory=list)
    _order: "count[int]" = field(default_factory=count)
    _link_free_us: int = 0
    _cancelled: set[Key] = field(default_factory=set)

    def at(self, when_us: int, what: Callable[[], list[actions.Action] | None]) -> None:
        heapq.heappush(self._events, (max(when_us, self.now_us), next(self._order), what))

    def connect(self) -> None:
        self._do(self.scheduler.welcomed(1, Credit(frames=8, bytes=4 << 20), self.now_us))

    def frame(self, seq: int, stream: str = "s", deadline_us: int = 100 * MS) -> None:
        """A frame becomes available now: it displaces what waits in the slot."""
        key = (stream, seq)
        if stream in self.waiting:
            self.shed.append(self.waiting.pop(stream))
        self.deadlines[key] = self.now_us + deadline_us
        self.waiting[stream] = key
        self._take(stream)

    def run_until(self, end_us: int) -> None:
        while True:
            due_us = self.scheduler.next_us()
            event_us = self._events[0][0] if self._events else None
            next_us = min((t for t in (due_us, event_us) if t is not None), default=end_us + 1)
            if next_us > end_us:
                self.now_us = max(self.now_us, end_us)
                return
            stuck = next_us <= self.now_us and event_us != next_us
            self.now_us = max(self.now_us, next_us)
            if event_us is not None and event_us <= self.now_us:
                _, _, what = heapq.heappop(self._events)
                self._do(what() or [])
                stuck = False
            if due_us is not None and due_us <= self.now_us:
                self._do(self.scheduler.tick(self.now_us))
                after = self.scheduler.next_us()
                assert not (stuck and after is not None and after <= due_us), "tick left its timer due"
            for stream in list(self.waiting):
                self._take(stream)

    def run_frames(self, frames: int, *, every_us: int, first_seq: int = 1) -> None:
        for i in range(frames):
            self.frame(first_seq + i)
            self.run_until(self.now_us + every_us)
        self.run_until(self.now_us + 500 * MS)

    def _take(self, stream: str) -> None:
        key = self.waiting.get(stream)
        if key is None:
            return
        deadline_us = self.deadlines[key]
        offered = self.scheduler.offer(
            key, captured_us=deadline_us - 100 * MS, deadline_us=deadline_us, now_us=self.now_us
        )
        if offered is not None:
            del self.waiting[stream]
            self._do(offered)

    def _do(self, decided: list[actions.Action]) -> None:
        self._check_slots()
        for action in decided:
            self._act(action)

    def _check_slots(self) -> None:
        slots = self.scheduler.near.timeline.slots
        for before, after in pairwise(slots):
            assert before.end_us <= after.start_us, f"slots overlap: {before} {after}"
        for slot in slots:
            assert slot.end_us <= self.deadlines[slot.key] - self.scheduler.settings.margin_us

    def _act(self, action: actions.Action) -> None:
        now = self.now_us
        match action:
            case actions.Encode(key):
                self.at(
                    now + self.encode_us,
                    lambda: self.scheduler.encoded(
                        key, size_bytes=FRAME_BYTES, encode_us=self.encode_us, now_us=self.now_us
                    ),
                )
            case actions.SendFrame(key, _, probe):
                self.offloaded.append((now, key, probe))
                self._send(key)
            case actions.StartNear(key, _):
                assert self.near_busy is None, "near was started twice"
                self.near_busy = key
                run_us = self.near_us(now)
                self.at(now + run_us, lambda: self._near_end(key, run_us))
            case actions.CancelNear(key):
                self._cancelled.add(key)
                self.at(now + MS, lambda: self._near_end(key, 0))
            case actions.Give(key, hold=hold):
                assert key not in self.given, f"{key} was answered twice"
                self.given[key] = action
                if not hold:
                    self._release(key)
                elif self.commit_us is not None:
                    self.at(now + self.commit_us, lambda: self.scheduler.committed(key, self.now_us))
            case actions.Release(key):
                self._release(key)
            case actions.LateFar(key):
                self.late_far.append(key)
            case actions.SendPing(nonce):
                self.pings += 1
                rtt_us = self.rtt_us(now)
                if rtt_us is not None:
                    self.at(now + rtt_us, lambda: self._pong(nonce))
            case actions.OpenFresh():
                self.fresh += 1

    def _pong(self, nonce: int) -> list[actions.Action]:
        return self.scheduler.pong(nonce, resident_us=0, load=Load(), credit=None, now_us=self.now_us)

    def _release(self, key: Key) -> None:
        assert key not in self.released, f"{key} was released twice"
        self.released[key] = (self.now_us, self.given[key].by)

    def _near_end(self, key: Key, run_us: int) -> list[actions.Action]:
        if self.near_busy != key:
            return []
        self.near_busy = None
        status = None if key in self._cancelled else Status.OK
        return self.scheduler.near_done(key, status=status, run_us=run_us, now_us=self.now_us)

    def _send(self, key: Key) -> None:
        self.sent_bytes += FRAME_BYTES
        rtt_us = self.rtt_us(self.now_us)
        if rtt_us is None:
            return
        cross_us = int(FRAME_BYTES / self.bytes_per_us)
        start_us = max(self.now_us, self._link_free_us)
        self._link_free_us = start_us + cross_us
        head_us = start_us + rtt_us // 2
        body_us = head_us + cross_us
        worker_us = self.worker_us(body_us)
        timing = WorkerTiming(
            head_mono_us=head_us, body_mono_us=body_us, detect_us=worker_us, resident_us=worker_us
        )
        load = Load(service_p50_us=worker_us, service_p95_us=worker_us)
        self.at(
            body_us + worker_us + rtt_us // 2,
            lambda: self.scheduler.result(key, timing=timing, load=load, now_us=self.now_us),
        )

    def share(self, by: AnsweredBy, first_seq: int = 1, last_seq: int = 1 << 60) -> float:
        seqs = [k for k in self.released if first_seq <= k[1] <= last_seq]
        return sum(self.released[k][1] is by for k in seqs) / max(1, len(seqs))

    def late(self) -> list[Key]:
        return [k for k, (at, _) in self.released.items() if at > self.deadlines[k]]


def world(*, connect: bool = True, **changes: object) -> World:
    """A world whose scheduler has `settings(**changes)` and one stream, connected unless told otherwise."""
    made = World(Scheduler(settings(**changes), {"s": RungCost(320 * 240), "t": RungCost(320 * 240)}))
    if connect:
        made.connect()
        made.run_until(made.now_us + 300 * MS)
    return made
