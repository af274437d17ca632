"""One link of any kind to one scripted worker that can go, come back and stop reading: what contract tests ask."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Protocol, TypeVar

from zmq.utils import garbage

from cloud.listeners.base import Listener
from cloud.listeners.kinds import LISTENERS
from edge.links.base import Connected, Link, LinkEvent, Received, Sent
from edge.links.kinds import LINKS
from edge.links.memory import MemoryLink
from pipelines.frame import Encoding
from pipelines.result import Gap, GapReason
from pipelines.runtime import monotonic_us
from protos.wire.bulk import BulkBatch
from protos.wire.live import FrameBody, FrameHead
from protos.wire.messages import ToWorker
from protos.wire.session import Hello, Lane, StreamInfo
from tests.support.endpoints import ScriptedEndpoint
from tests.support.eventually import eventually
from tests.support.rig import free_port

KINDS = ("memory", *(kind.name for kind in LINKS))
AT_ONCE_S = 0.5
"""A call that returns at once takes microseconds; one that waits for a worker takes seconds. Between them lies
whatever a loaded machine does to a test."""

HELLO = Hello(
    agent="gw", run=bytes(16), lane=Lane.LIVE, streams=(StreamInfo(name="door", width_px=640, height_px=480),)
)
BATCH = BulkBatch(
    batch=1, gaps=(Gap(run=bytes(16), stream="door", first=1, last=2, reason=GapReason.SHED, detail="x"),)
)
E = TypeVar("E", bound=LinkEvent)


class Place(Protocol):
    """Where a worker can be reached, or not."""

    def link(self) -> Link: ...
    def up(self) -> None: ...
    def down(self) -> None: ...
    def stop_reading(self) -> None: ...
    def read_again(self) -> None: ...


class MemoryPlace:
    def __init__(self, endpoint: ScriptedEndpoint) -> None:
        self._made = MemoryLink(name="cable", endpoint=endpoint, clock_us=monotonic_us)
        self.up, self.down = self._made.heal, self._made.cut
        self.stop_reading, self.read_again = self._made.stall, self._made.resume

    def link(self) -> Link:
        return self._made


class WirePlace:
    """A listener in this process, on a port that stays its own."""

    def __init__(self, endpoint: ScriptedEndpoint, kind: str) -> None:
        self._endpoint = endpoint
        self._kind = kind
        self._port = free_port()
        self._listener: Listener | None = None

    def link(self) -> Link:
        url = f"{self._kind}://127.0.0.1:{self._port}"
        made: Link = LINKS[self._kind].resolve()(name="cable", url=url, clock_us=monotonic_us)
        return made

    def up(self) -> None:
        self._listener = LISTENERS[self._kind].resolve()(
            self._endpoint, address=f"127.0.0.1:{self._port}", clock_us=monotonic_us
        )
        self._listener.start()

    def down(self) -> None:
        self.read_again()
        if self._listener is not None:
            self._listener.stop()
            self._listener = None

    def stop_reading(self) -> None:
        self._endpoint.reading.clear()

    def read_again(self) -> None:
        self._endpoint.reading.set()


class House:
    """One link to one scripted worker, and everything the link reported."""

    def __init__(self, kind: str) -> None:
        self.worker = ScriptedEndpoint()
        self.place: Place = MemoryPlace(self.worker) if kind == "memory" else WirePlace(self.worker, kind)
        self.link = self.place.link()
        self.events: list[LinkEvent] = []
        self.threads: set[threading.Thread] = set()
        self.overlaps = 0
        self._delivering = threading.Lock()

    def deliver(self, event: LinkEvent) -> None:
        if not self._delivering.acquire(blocking=False):
            self.overlaps += 1
            return
        self.threads.add(threading.current_thread())
        self.events.append(event)
        self._delivering.release()

    def start(self) -> None:
        self.link.start(HELLO, self.deliver)

    def connect(self) -> "House":
        self.place.up()
        self.start()
        self.wait_connected()
        return self

    def all(self, kind: type[E], lane: Lane | None = None) -> list[E]:
        return [e for e in tuple(self.events) if isinstance(e, kind) and (lane is None or lane is e.lane)]

    def wait(self, kind: type[E], count: int = 1, *, lane: Lane | None = None, within_s: float = 5.0) -> E:
        """The `count`th event of a kind."""
        eventually(
            lambda: len(self.all(kind, lane)) >= count,
            within_s,
            f"{count} {kind.__name__} on {lane}; {self.events}",
        )
        return self.all(kind, lane)[count - 1]

    def wait_connected(self, count: int = 1) -> None:
        for lane in Lane:
            self.wait(Connected, count, lane=lane)

    def wait_answers(self, count: int) -> None:
        eventually(lambda: len(self.messages()) >= count, what=f"{count} answers; {self.messages()}")

    def messages(self) -> list[object]:
        return [e.message for e in self.all(Received)]


def frame(seq: int, data: bytes = b"x" * 30_000) -> tuple[FrameHead, FrameBody]:
    encoding = Encoding(codec="raw", quality=50, width_px=64, height_px=48, body_bytes=len(data))
    head = FrameHead(
        stream=0, seq=seq, worker_budget_us=10**6, sent_mono_us=monotonic_us(), encoding=encoding
    )
    return head, FrameBody(stream=0, seq=seq, data=data)


def timed(house: House, *messages: ToWorker, lane: Lane = Lane.LIVE) -> tuple[Sent, float]:
    """What became of a send and how long it took, in seconds."""
    begun = time.perf_counter()
    return house.link.send(*messages, lane=lane), time.perf_counter() - begun


@cache
def _start_collector() -> None:
    """One thread for the whole process, which pyzmq starts at its first zero-copy send and never ends."""
    garbage.gc.start()


@contextmanager
def link_house(kind: str) -> Iterator[House]:
    """Nothing is started, and the worker is not there yet."""
    _start_collector()
    made = House(kind)
    made.place.down()
    yield made
    made.worker.reading.set()
    made.link.close()
    made.place.down()
