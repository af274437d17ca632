"""A world in virtual time around the scheduler: near, codec, links and outbox as scripted delays.

It carries out actions exactly as the dispatcher does and checks the promises while it runs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from edge.scheduling import actions
from edge.scheduling.far.way import FarWay
from edge.scheduling.key import Key
from edge.scheduling.rung import Rung
from edge.scheduling.scheduler import Scheduler
from edge.scheduling.settings import LinkSettings, SchedulerSettings, StreamSettings
from nearfar.simulation.clock import Clock
from pipelines.result import Load, Status, WorkerTiming
from protos.wire.session import Credit
from tests.support.ledger import Ledger
from tests.support.virtual_wire import Wire

MS = 1000
FRAME_BYTES = 20_000
LINK = "link"
ONE_RUNG = (Rung(codec="jpeg", quality=50, scale=1.0, accuracy=1.0),)
LADDER = (
    Rung(codec="jpeg", quality=50, scale=1.0, accuracy=0.98),
    Rung(codec="jpeg", quality=50, scale=0.75, accuracy=0.95),
    Rung(codec="jpeg", quality=50, scale=0.5, accuracy=0.9),
    Rung(codec="jpeg", quality=20, scale=0.375, accuracy=0.85),
)


def settings(**changes: object) -> SchedulerSettings:
    values: dict[str, object] = {
        "deadline_us": 100 * MS,
        "margin_us": 4 * MS,
        "ladder": ONE_RUNG,
        "near_accuracy": 0.5,
        "near_prior_us": 20 * MS,
        "fall_back_above_us": 100 * MS,
        "return_below_us": 50 * MS,
    }
    return SchedulerSettings(**(values | changes))  # type: ignore[arg-type]


def links(*names: str, **changes: object) -> tuple[LinkSettings, ...]:
    return tuple(LinkSettings(name=name, **changes) for name in names)  # type: ignore[arg-type]


@dataclass
class World(Ledger):
    """`near_us(now)` how long a near run takes; `rtt_us`, `worker_us` script the first link."""

    scheduler: Scheduler
    near_us: Callable[[int], int] = lambda _: 20 * MS
    small_near_us: Callable[[int], int] = lambda _: 8 * MS
    stop_us: int | None = MS  # how long a cancelled near run goes on; None = to its end
    encode_us: int = 2 * MS
    commit_us: int | None = 200
    confidence: Callable[[Key], float | None] = lambda _: 0.5
    clock: Clock = field(default_factory=lambda: Clock(1_000_000))
    wires: dict[str, Wire] = field(default_factory=dict)
    waiting: dict[str, Key] = field(default_factory=dict)
    pings: int = 0
    fresh: int = 0
    fresh_reasons: list[str] = field(default_factory=list)
    near_runs: list[tuple[Key, bool]] = field(default_factory=list)
    near_busy: Key | None = None
    offloaded: list[tuple[int, Key, bool]] = field(default_factory=list)
    sent_over: list[tuple[int, Key, str]] = field(default_factory=list)
    uncovered: list[Key] = field(default_factory=list)  # sent far with no near slot or run behind them
    rungs: dict[Key, int] = field(default_factory=dict)
    _cancelled: set[Key] = field(default_factory=set)

    def __post_init__(self) -> None:
        for name in self.scheduler.ways:
            self.wires.setdefault(name, Wire())

    @property
    def now_us(self) -> int:
        return self.clock.now_us

    @property
    def rtt_us(self) -> Callable[[int], int | None]:
        return self.wire.rtt_us

    @rtt_us.setter
    def rtt_us(self, value: Callable[[int], int | None]) -> None:
        self.wire.rtt_us = value

    @property
    def worker_us(self) -> Callable[[int], int]:
        return self.wire.worker_us

    @worker_us.setter
    def worker_us(self, value: Callable[[int], int]) -> None:
        self.wire.worker_us = value

    @property
    def wire(self) -> Wire:
        return next(iter(self.wires.values()))

    @property
    def way(self) -> FarWay:
        return next(iter(self.scheduler.ways.values()))

    @property
    def sent_bytes(self) -> int:
        return sum(wire.sent_bytes for wire in self.wires.values())

    def at(self, when_us: int, what: Callable[[], list[actions.Action] | None]) -> None:
        self.clock.at(when_us, lambda: self.do(what() or []))

    def connect(self, link: str | None = None, connection: int = 1) -> None:
        for name in [link] if link else list(self.wires):
            self.do(self.scheduler.welcomed(name, connection, Credit(frames=8, bytes=4 << 20), self.now_us))

    def disconnect(self, link: str | None = None, reason: str = "reset") -> None:
        for name in [link] if link else list(self.wires):
            self.do(self.scheduler.disconnected(name, reason, self.now_us))

    def frame(self, seq: int, stream: str = "s", deadline_us: int = 100 * MS) -> None:
        """A frame becomes available now: it displaces what waits in the slot."""
        key = (stream, seq)
        if stream in self.waiting:
            self.give_up(self.waiting.pop(stream), "slot_overwritten")
        self.deadlines[key] = self.now_us + deadline_us
        self.waiting[stream] = key
        self.take(stream)

    def run_until(self, end_us: int) -> None:
        while True:
            due_us = self.scheduler.next_us()
            event_us = self.clock.next_us()
            ups = [self.scheduler.waits_until_us(k, self.deadlines[k]) for k in self.waiting.values()]
            up_us = min((up for up in ups if up > self.now_us), default=None)
            next_us = min((t for t in (due_us, event_us, up_us) if t is not None), default=end_us + 1)
            if next_us > end_us:
                self.clock.advance(max(self.now_us, end_us))
                return
            stuck = next_us <= self.now_us and event_us != next_us
            self.clock.advance(max(self.now_us, next_us))
            if self.clock.run_due():
                stuck = False
            if due_us is not None and due_us <= self.now_us:
                self.do(self.scheduler.tick(self.now_us))
                after = self.scheduler.next_us()
                assert not (stuck and after is not None and after <= due_us), "tick left its timer due"
            for stream in self.scheduler.by_claim(list(self.waiting), self.now_us):
                self.take(stream)

    def run_frames(
        self, frames: int, *, every_us: int, first_seq: int = 1, streams: tuple[str, ...] = ("s",)
    ) -> None:
        for i in range(frames):
            for stream in streams:
                self.frame(first_seq + i, stream)
            self.run_until(self.now_us + every_us)
        self.run_until(self.now_us + 500 * MS)

    def take(self, stream: str) -> None:
        key = self.waiting.get(stream)
        if key is None:
            return
        deadline_us = self.deadlines[key]
        offered = self.scheduler.offer(
            key, captured_us=deadline_us - 100 * MS, deadline_us=deadline_us, now_us=self.now_us
        )
        if offered is not None:
            del self.waiting[stream]
            self.do(offered)

    def do(self, decided: list[actions.Action]) -> None:
        self._check_slots()
        behind = {a.key for a in decided if isinstance(a, actions.StartNear)} | {self.near_busy}
        behind |= {slot.key for slot in self.scheduler.near.timeline}
        self.uncovered += [a.key for a in decided if isinstance(a, actions.SendFrame) and a.key not in behind]
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
            case actions.Encode(key, rung):
                self.rungs[key] = rung
                size_bytes = self.frame_bytes(rung)
                self.at(
                    now + self.encode_us,
                    lambda: self.scheduler.encoded(
                        key, size_bytes=size_bytes, encode_us=self.encode_us, now_us=self.now_us
                    ),
                )
            case actions.SendFrame(key, link, _, probe):
                self.offloaded.append((now, key, probe))
                self.sent_over.append((now, key, link))
                self._send(key, link)
            case actions.StartNear(key, _, small):
                assert self.near_busy is None, "near was started twice"
                self.near_busy = key
                self.near_runs.append((key, small))
                run_us = self.small_near_us(now) if small else self.near_us(now)
                run = len(self.near_runs)
                self._cancelled.discard(key)
                self.at(now + run_us, lambda: self._near_end(key, run_us, run))
            case actions.CancelNear(key):
                run = len(self.near_runs)
                if self.stop_us is not None:
                    self._cancelled.add(key)
                    self.at(now + self.stop_us, lambda: self._near_end(key, 0, run))
            case actions.Track(key):
                self.carry(key, now)
            case actions.Give(key, hold=hold):
                self.give(action)
                if not hold:
                    self.release(key, now)
                elif self.commit_us is not None:
                    self.at(now + self.commit_us, lambda: self.scheduler.committed(key, self.now_us))
            case actions.Release(key):
                self.release(key, now)
            case actions.Shed(key, reason):
                self.give_up(key, reason.value)
            case actions.LateFar(key):
                self.far_was_late(key)
            case actions.SendPing(link, nonce):
                self.pings += 1
                rtt_us = self.wires[link].rtt_us(now)
                if rtt_us is not None:  # behind the frames: a lane is one ordered stream
                    self.at(max(now, self.wires[link].free_us) + rtt_us, lambda: self._pong(link, nonce))
            case actions.OpenFresh(_, reason):
                self.fresh += 1
                self.fresh_reasons.append(reason)

    def frame_bytes(self, rung: int) -> int:
        """What a frame weighs at a rung: `FRAME_BYTES` at the first."""
        ladder = self.scheduler.settings.ladder
        return int(FRAME_BYTES * (ladder[rung].scale / ladder[0].scale) ** 2)

    def _pong(self, link: str, nonce: int) -> list[actions.Action]:
        return self.scheduler.pong(link, nonce, resident_us=0, load=Load(), credit=None, now_us=self.now_us)

    def _near_end(self, key: Key, run_us: int, run: int) -> list[actions.Action]:
        if self.near_busy != key or run != len(self.near_runs):
            return []
        self.near_busy = None
        status = None if key in self._cancelled else Status.OK
        return self.scheduler.near_done(
            key, status=status, run_us=run_us, now_us=self.now_us, confidence=self.confidence(key)
        )

    def _send(self, key: Key, link: str) -> None:
        wire = self.wires[link]
        size_bytes = self.frame_bytes(self.rungs[key])
        wire.sent_bytes += size_bytes
        rtt_us = wire.rtt_us(self.now_us)
        if rtt_us is None or not wire.frames_pass:
            return
        cross_us = int(size_bytes / wire.bytes_per_us)
        start_us = max(self.now_us, wire.free_us)
        wire.free_us = start_us + cross_us
        head_us = start_us + rtt_us // 2
        body_us = head_us + cross_us
        worker_us = wire.worker_us(body_us)
        timing = WorkerTiming(
            head_mono_us=head_us, body_mono_us=body_us, detect_us=worker_us, resident_us=worker_us
        )
        load = Load(service_p50_us=worker_us, service_p95_us=worker_us, window_frames=wire.window_frames)
        self.at(
            body_us + worker_us + rtt_us // 2,
            lambda: self.scheduler.result(key, link=link, timing=timing, load=load, now_us=self.now_us),
        )


def world(
    *, connect: bool = True, streams: Mapping[str, StreamSettings] | None = None, **changes: object
) -> World:
    """A world whose scheduler has `settings(**changes)` and streams s and t, connected unless told otherwise."""
    plain = StreamSettings(pixels=320 * 240, size_px=(320, 240))
    made = World(Scheduler(settings(**changes), streams or {"s": plain, "t": plain}))
    if connect:
        made.connect()
        made.run_until(made.now_us + 300 * MS)
    return made
