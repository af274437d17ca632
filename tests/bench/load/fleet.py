"""Simulated agents: real links, frames at moments drawn beforehand, every answer held against its deadline.

A frame's clock starts when it was due, not when the generator got round to it, so that a late generator makes the
worker look worse and never better; how late it was is a figure of its own. Like an agent, one does not send what
its window has no room for (`held`: near would answer), except the greedy one, which asks for all it wants.
"""

import heapq
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from edge.links.base import Connected, Dropped, Link, LinkEvent, Received, Refused, Sent
from edge.links.kinds import LINKS
from pipelines.frame import Encoding, new_run
from pipelines.result import WorkerTiming
from pipelines.runtime import monotonic_us
from protos.wire.live import FrameBody, FrameHead, Reject, Result
from protos.wire.session import Hello, Lane, RejectReason, StreamInfo
from tests.bench.load.arrivals import Arrivals
from tests.bench.load.picture import padded_jpeg

DEADLINE_US = 100_000
WAY_BACK_US = 5_000  # what an agent keeps of its deadline for the way back and its own hand-over
CONNECT_WITHIN_S = 20.0
BODY_BYTES = 30_000
_SHORTEST_SLEEP_S = 0.0002


@dataclass(slots=True)
class Tally:
    """What became of one agent's frames."""

    due: int = 0
    on_time: int = 0
    late: int = 0
    held: int = 0
    not_sent: int = 0
    rejects: Counter[str] = field(default_factory=Counter)
    reject_us: list[int] = field(default_factory=list)
    """From sending to the reject's delivery, those aside that expired."""
    expired_us: list[int] = field(default_factory=list)
    """From the end of a frame's time at the worker to the delivery of the reject that says so."""
    timings: list[WorkerTiming] = field(default_factory=list)
    """Of its results, as they came."""
    arrived_us: list[int] = field(default_factory=list)
    """When each of them came."""


class LoadAgent:
    """One agent on one link; `greedy`: it knows no window; `freed` is told of each frame that is no longer out."""

    def __init__(self, name: str, url: str, *, greedy: bool = False, deadline_us: int = DEADLINE_US) -> None:
        self.name = name
        self.tally = Tally()
        self._ready = threading.Event()
        self._refusal = ""
        self.freed: Callable[[], object] = lambda: None
        self._deadline_us = deadline_us
        self._greedy = greedy
        self._window = 0
        self._seq = 0
        self._lanes: set[Lane] = set()
        self._in_flight: dict[int, tuple[int, int]] = {}  # seq → (due, sent), µs
        self._lock = threading.Lock()
        kind = url.partition(":")[0]
        self._link: Link = LINKS[kind].resolve()(name=name, url=url, clock_us=monotonic_us)
        stream = StreamInfo(name="cam", width_px=640, height_px=480)
        self._link.start(Hello(agent=name, run=new_run(), lane=Lane.LIVE, streams=(stream,)), self._deliver)

    def wait_ready(self) -> None:
        """Until both lanes are welcomed; TimeoutError with the worker's words."""
        if not self._ready.wait(CONNECT_WITHIN_S):
            raise TimeoutError(f"{self.name} was not welcomed within {CONNECT_WITHIN_S} s: {self._refusal}")

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    def offer(self, due_us: int, body: bytes, encoding: Encoding) -> None:
        """A frame was due then; send it if the window has room."""
        now_us = monotonic_us()
        with self._lock:
            self.tally.due += 1
            if not self._greedy and len(self._in_flight) >= self._window:
                self.tally.held += 1
                return
            self._seq += 1
            seq = self._seq
            self._in_flight[seq] = (due_us, now_us)
        head = FrameHead(
            stream=0,
            seq=seq,
            worker_budget_us=max(0, due_us + self._deadline_us - WAY_BACK_US - now_us),
            sent_mono_us=now_us,
            encoding=encoding,
            source_width_px=encoding.width_px,
            source_height_px=encoding.height_px,
        )
        if self._link.send(head, FrameBody(stream=0, seq=seq, data=body)) is not Sent.ACCEPTED:
            self._over(seq, not_sent=True)

    def _over(self, seq: int, *, not_sent: bool = False) -> tuple[int, int] | None:
        with self._lock:
            self.tally.not_sent += not_sent
            times = self._in_flight.pop(seq, None)
        self.freed()
        return times

    def _deliver(self, event: LinkEvent) -> None:
        match event:
            case Received(message=Result() as result):
                if (times := self._over(result.seq)) is not None:
                    on_time = event.arrived_us <= times[0] + self._deadline_us
                    self.tally.timings.append(result.timing)
                    self.tally.arrived_us.append(event.arrived_us)
                    self.tally.on_time += on_time
                    self.tally.late += not on_time
            case Received(message=Reject() as reject):
                if (times := self._over(reject.seq)) is not None:
                    self.tally.rejects[reject.reason.value] += 1
                    if reject.reason is RejectReason.EXPIRED:
                        over_us = times[0] + self._deadline_us - WAY_BACK_US
                        self.tally.expired_us.append(event.arrived_us - over_us)
                    else:
                        self.tally.reject_us.append(event.arrived_us - times[1])
            case Dropped(message=FrameHead() as head):
                self._over(head.seq, not_sent=True)
            case Connected():
                self._lanes.add(event.lane)
                if event.lane is Lane.LIVE:
                    self._window = event.welcome.credit.frames
                if len(self._lanes) == len(Lane):
                    self._ready.set()
            case Refused():
                self._refusal = event.error.text

    def close(self) -> None:
        self._link.close()


@contextmanager
def fleet(url: str, count: int, *, greedy: bool = False, called: str = "agent") -> Iterator[list[LoadAgent]]:
    """`count` welcomed agents, and a greedy one at the end if wanted."""
    names = [f"{called}-{number}" for number in range(count)]
    agents = [LoadAgent(name, url) for name in names]
    if greedy:
        agents.append(LoadAgent("greedy", url, greedy=True))
    try:
        for agent in agents:
            agent.wait_ready()
        yield agents
    finally:
        for agent in agents:
            agent.close()


@dataclass(frozen=True, slots=True)
class Drive:
    """What a run of frames came to: `tallies` in the order of the agents, how late the generator was, and for how
    long."""

    tallies: list[Tally]
    late_us: list[int]
    seconds: float

    @property
    def due(self) -> int:
        return sum(tally.due for tally in self.tallies)

    @property
    def on_time(self) -> int:
        return sum(tally.on_time for tally in self.tallies)

    @property
    def answered(self) -> int:
        return sum(tally.on_time + tally.late for tally in self.tallies)

    @property
    def goodput(self) -> float:
        """Answers within their deadline a second."""
        return self.on_time / self.seconds


def drive(
    agents: Sequence[LoadAgent], rates: Sequence[float], arrivals: Arrivals, *, seconds: float, seed: int
) -> Drive:
    """Offer `rates[i]` frames a second from agent i for `seconds`, wait for what is out, and count."""
    body, encoding = padded_jpeg(BODY_BYTES)
    for agent in agents:
        agent.tally = Tally()
    gaps = [arrivals(rate, random.Random(f"{seed} {place}")) for place, rate in enumerate(rates)]
    begun_us = monotonic_us()
    until_us = begun_us + int(seconds * 1e6)
    due = [(begun_us + next(gap) * 1e6, place) for place, gap in enumerate(gaps)]
    heapq.heapify(due)
    late_us: list[int] = []
    while due[0][0] < until_us:
        due_us, place = due[0]
        while (wait_s := (due_us - monotonic_us()) / 1e6) > 0:
            time.sleep(max(wait_s, _SHORTEST_SLEEP_S))
        late_us.append(monotonic_us() - int(due_us))
        agents[place].offer(int(due_us), body, encoding)
        heapq.heapreplace(due, (due_us + next(gaps[place]) * 1e6, place))
    _let_end(agents)
    return Drive([agent.tally for agent in agents], late_us, seconds)


def keep_busy(
    agent: LoadAgent, *, window: int, seconds: float, frame: tuple[bytes, Encoding] | None = None
) -> float:
    """Answers a second of one agent that always has `window` frames out, from its first answer to its last: what the worker
    can do. TimeoutError when it answers nothing any more, RuntimeError when it answered fewer than two."""
    body, encoding = frame or padded_jpeg(BODY_BYTES)
    agent.tally = Tally()
    room = threading.Semaphore(window)
    agent.freed = room.release
    until_us = monotonic_us() + int(seconds * 1e6)
    while monotonic_us() < until_us:
        if not room.acquire(timeout=CONNECT_WITHIN_S):
            raise TimeoutError(f"{agent.name}: nothing came back for {CONNECT_WITHIN_S} s")
        agent.offer(monotonic_us(), body, encoding)
    arrived_us = list(agent.tally.arrived_us)  # those after it are of a window that is not filled up any more
    _let_end((agent,))
    agent.freed = lambda: None
    if len(arrived_us) <= 1:
        raise RuntimeError(f"{agent.name}: {len(arrived_us)} answers in {seconds} s: {agent.tally.rejects}")
    return (len(arrived_us) - 1) * 1e6 / (arrived_us[-1] - arrived_us[0])


def _let_end(agents: Sequence[LoadAgent]) -> None:
    """Wait until nothing is out, or ten deadlines are over."""
    until_us = monotonic_us() + 10 * DEADLINE_US
    while any(agent.in_flight for agent in agents) and monotonic_us() < until_us:
        time.sleep(0.005)
