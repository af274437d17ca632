"""What every link promises, whatever carries it: one suite over the memory, the ZeroMQ and the gRPC link."""

import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Protocol, TypeVar

import pytest
from zmq.utils import garbage

from cloud.config import LISTENERS
from cloud.listeners.base import Listener
from edge.links.base import Connected, Disconnected, Dropped, Link, LinkEvent, Received, Refused, Sent
from edge.links.kinds import LINKS
from edge.links.memory import MemoryLink
from pipelines.frame import Encoding
from pipelines.result import Gap, GapReason
from protos.wire.bulk import BulkBatch
from protos.wire.live import FrameBody, FrameHead, Result
from protos.wire.messages import ToWorker
from protos.wire.session import Error, Goodbye, Hello, Lane, Ping, Pong, RejectReason, StreamInfo
from tests.support.endpoints import WELCOME, ScriptedEndpoint, ScriptedSession
from tests.support.eventually import eventually
from tests.support.rig import free_port

HELLO = Hello(
    agent="gw", run=bytes(16), lane=Lane.LIVE, streams=(StreamInfo(name="door", width_px=640, height_px=480),)
)
BATCH = BulkBatch(
    batch=1, gaps=(Gap(run=bytes(16), stream="door", first=1, last=2, reason=GapReason.SHED, detail="x"),)
)
E = TypeVar("E", bound=LinkEvent)


def clock_us() -> int:
    return time.monotonic_ns() // 1000


class Place(Protocol):
    """Where a worker can be reached, or not."""

    def link(self) -> Link: ...
    def up(self) -> None: ...
    def down(self) -> None: ...
    def stop_reading(self) -> None: ...
    def read_again(self) -> None: ...


class MemoryPlace:
    def __init__(self, endpoint: ScriptedEndpoint) -> None:
        self._made = MemoryLink(name="cable", endpoint=endpoint, clock_us=clock_us)
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
        made: Link = LINKS[self._kind].resolve()(name="cable", url=url, clock_us=clock_us)
        return made

    def up(self) -> None:
        self._listener = LISTENERS[self._kind].resolve()(
            self._endpoint, address=f"127.0.0.1:{self._port}", clock_us=clock_us
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


@pytest.fixture(scope="module", autouse=True)
def _zero_copy_collector() -> None:
    """One thread for the whole process, which pyzmq starts at its first zero-copy send and never ends."""
    garbage.gc.start()


@pytest.fixture(params=["memory", "zmq", "grpc"])
def house(request: pytest.FixtureRequest) -> Iterator[House]:
    made = House(request.param)
    made.place.down()
    yield made
    made.worker.reading.set()
    made.link.close()
    made.place.down()


def frame(seq: int, data: bytes = b"x" * 30_000) -> tuple[FrameHead, FrameBody]:
    encoding = Encoding(codec="raw", quality=50, width_px=64, height_px=48, body_bytes=len(data))
    head = FrameHead(stream=0, seq=seq, worker_budget_us=10**6, sent_mono_us=clock_us(), encoding=encoding)
    return head, FrameBody(stream=0, seq=seq, data=data)


def timed(house: House, *messages: ToWorker, lane: Lane = Lane.LIVE) -> tuple[Sent, float]:
    """What became of a send and how long it took, in seconds."""
    begun = time.perf_counter()
    return house.link.send(*messages, lane=lane), time.perf_counter() - begun


def test_hello_is_the_first_message_on_each_lane_and_names_it(house: House) -> None:
    house.connect()
    for lane in Lane:
        (session,) = house.worker.on(lane)
        first = session.received[0]
        assert isinstance(first, Hello)
        assert (first.agent, first.run, first.lane, first.streams) == ("gw", bytes(16), lane, HELLO.streams)
        assert house.wait(Connected, lane=lane).welcome == WELCOME


def test_lanes_never_share_a_connection(house: House) -> None:
    house.connect()
    assert house.link.send(*frame(1), lane=Lane.LIVE) is Sent.ACCEPTED
    assert house.link.send(BATCH, lane=Lane.BULK) is Sent.ACCEPTED
    (live,), (bulk,) = house.worker.on(Lane.LIVE), house.worker.on(Lane.BULK)
    eventually(lambda: len(live.received) == 3 and len(bulk.received) == 2, what="both messages")
    assert [type(m) for m in live.received] == [Hello, FrameHead, FrameBody]
    assert bulk.received[1:] == [BATCH]
    assert len({e.connection for e in house.all(Connected)}) == 2


def test_a_send_before_any_welcome_is_down_and_returns_at_once(house: House) -> None:
    house.start()
    for lane in Lane:
        sent, took_s = timed(house, Ping(nonce=1, sent_mono_us=0), lane=lane)
        assert sent is Sent.DOWN
        assert took_s < 0.05
    assert house.link.bytes_sent() == 0


def test_frames_arrive_in_order_head_before_body_and_bytes_unchanged(house: House) -> None:
    house.connect()
    sizes = (30_000, 65_535, 65_536, 250_000, 1_000_000)
    bodies = [bytes([i]) + b"\x00\xff\x80" * (n // 3) for i, n in enumerate(sizes)]
    (session,) = house.worker.on(Lane.LIVE)
    for seq, body in enumerate(bodies, 1):
        assert house.link.send(*frame(seq, body)) is Sent.ACCEPTED
        house.wait_answers(seq)  # a worker answers what it has
    assert [(type(m), m.seq) for m in session.frames] == [
        (kind, seq) for seq in range(1, len(bodies) + 1) for kind in (FrameHead, FrameBody)
    ]
    assert [m.data for m in session.frames if isinstance(m, FrameBody)] == bodies
    assert house.link.bytes_sent() > sum(map(len, bodies))


def test_what_the_worker_would_not_take_is_never_sent_and_counted(house: House) -> None:
    limit_bytes = WELCOME.limits.message_bytes
    house.connect()
    big = b"x" * (limit_bytes + 1)
    assert house.link.send(*frame(1, big)) is Sent.TOO_LARGE
    batch = BulkBatch(batch=1, records_zstd=big[:-1], records_bytes=1)
    assert house.link.send(batch, lane=Lane.BULK) is Sent.TOO_LARGE
    assert house.link.too_large == 2
    assert house.link.send(*frame(2, big[:-1])) is Sent.ACCEPTED, "the limit itself is taken"
    house.wait_answers(1)
    assert [m.seq for m in house.worker.on(Lane.LIVE)[0].frames] == [2, 2]
    assert house.all(Disconnected) == []


def test_a_burst_keeps_its_order_and_every_frame_ends_crossed_or_dropped(house: House) -> None:
    house.connect()
    sent = {s: house.link.send(*frame(s)) for s in range(1, 21)}
    accepted = [s for s, how in sent.items() if how is Sent.ACCEPTED]
    (session,) = house.worker.on(Lane.LIVE)

    def ends() -> tuple[list[int], list[int]]:
        crossed = [m.seq for m in session.frames if isinstance(m, FrameBody)]
        dropped = [d.message.seq for d in house.all(Dropped) if isinstance(d.message, FrameBody)]
        return crossed, dropped

    eventually(lambda: sorted([*ends()[0], *ends()[1]]) == accepted, what=f"an end for each of {accepted}")
    assert ends()[0] == sorted(ends()[0])


def test_answers_come_back_stamped_on_the_gateways_clock(house: House) -> None:
    house.connect()
    before_us = clock_us()
    house.link.send(*frame(7))
    house.link.send(Ping(nonce=99, sent_mono_us=before_us))
    eventually(lambda: len(house.messages()) == 2, what="a result and a pong")
    after_us = clock_us()
    for event in house.all(Received):
        assert before_us <= event.arrived_us <= after_us
        assert (event.lane, event.connection) == (Lane.LIVE, house.wait(Connected, lane=Lane.LIVE).connection)
    assert {type(m): getattr(m, "seq", None) or getattr(m, "nonce", None) for m in house.messages()} == {
        Result: 7,
        Pong: 99,
    }


def test_a_workers_ping_is_answered_by_the_link_itself(house: House) -> None:
    house.connect()
    (session,) = house.worker.on(Lane.LIVE)
    session.peer.send(Ping(nonce=5, sent_mono_us=1))
    eventually(
        lambda: [m.nonce for m in session.received if isinstance(m, Pong)] == [5], what="the link's own Pong"
    )
    assert house.messages() == []


def test_the_link_starts_before_the_worker_and_finds_it_when_it_comes(house: House) -> None:
    house.start()
    assert house.link.send(*frame(1)) is Sent.DOWN
    assert house.all(Connected) == []
    house.place.up()
    house.wait_connected()
    assert house.link.send(*frame(2)) is Sent.ACCEPTED
    eventually(lambda: [getattr(m, "seq", 0) for m in house.messages()] == [2], what="the answer to frame 2")


def test_a_worker_that_goes_is_reported_and_found_again_when_it_is_back(house: House) -> None:
    house.connect()
    for goes in (1, 2):
        first = {lane: house.wait(Connected, goes, lane=lane).connection for lane in Lane}
        house.place.down()
        for lane in Lane:
            gone = house.wait(Disconnected, goes, lane=lane)
            assert gone.connection == first[lane]
            assert gone.reason
            assert house.link.send(Ping(nonce=1, sent_mono_us=0), lane=lane) is Sent.DOWN
        house.place.up()
        house.wait_connected(goes + 1)
        for lane in Lane:
            assert house.wait(Connected, goes + 1, lane=lane).connection > first[lane]
    house.link.send(*frame(3))
    eventually(lambda: [getattr(m, "seq", 0) for m in house.messages()] == [3], what="an answer after it all")


def said_goodbye(session: ScriptedSession) -> bool:
    return isinstance(session.received[-1], Goodbye)


def test_the_worker_is_told_when_the_link_closes(house: House) -> None:
    house.connect()
    house.link.close()
    for lane in Lane:
        (session,) = house.worker.on(lane)
        eventually(partial(said_goodbye, session), what=f"goodbye on the {lane} lane")


@pytest.mark.parametrize("lane", list(Lane))
def test_a_worker_that_reads_nothing_never_blocks_a_send(house: House, lane: Lane) -> None:
    house.connect()
    house.place.stop_reading()
    body = b"z" * 1_000_000
    batch = BulkBatch(batch=1, records_zstd=body, records_bytes=len(body))
    ends: list[Sent] = []
    took: list[float] = []

    def pushed_back() -> bool:
        messages = (batch,) if lane is Lane.BULK else frame(len(ends) + 1, body)
        sent, took_s = timed(house, *messages, lane=lane)
        ends.append(sent)
        took.append(took_s)
        return sent is Sent.FULL or bool(house.all(Dropped, lane))

    eventually(pushed_back, 10.0, f"the link said it is full on {lane}")
    assert set(ends) <= {Sent.ACCEPTED, Sent.FULL}
    assert sorted(took)[:-1][-1] < 0.05, took  # the machine itself may pause once
    assert max(took) < 0.5
    for dropped in house.all(Dropped):
        assert isinstance(dropped.message, FrameHead | FrameBody | BulkBatch)
    house.place.read_again()


def test_a_full_live_lane_does_not_hold_up_the_bulk_lane(house: House) -> None:
    house.connect()
    house.place.stop_reading()
    eventually(
        lambda: house.link.send(*frame(1, b"z" * 1_000_000)) is Sent.FULL or bool(house.all(Dropped)),
        10.0,
        "a full live lane",
    )
    sent, took_s = timed(house, BATCH, lane=Lane.BULK)
    assert sent is Sent.ACCEPTED
    assert took_s < 0.05
    house.place.read_again()
    (bulk,) = house.worker.on(Lane.BULK)
    eventually(lambda: BATCH in bulk.received, 10.0, "the batch")


def test_a_fresh_connection_takes_over_from_a_silent_one_and_both_are_heard(house: House) -> None:
    house.connect()
    (old,) = house.worker.on(Lane.LIVE)
    first = house.wait(Connected, lane=Lane.LIVE).connection
    old.deaf = True
    house.link.open_fresh()
    fresh = house.wait(Connected, 2, lane=Lane.LIVE).connection
    assert fresh > first
    assert len(house.all(Connected, Lane.BULK)) == 1
    house.link.send(*frame(4))
    eventually(lambda: len(house.messages()) == 1, what="the answer on the fresh connection")
    assert house.worker.on(Lane.LIVE)[1].frames
    assert not old.frames
    old.peer.send(Pong(nonce=77, arrived_mono_us=0, resident_us=0))
    eventually(
        lambda: [e.connection for e in house.all(Received) if isinstance(e.message, Pong)] == [first],
        what="the late reply on the old connection",
    )
    assert house.all(Disconnected) == []


def test_no_more_than_four_connections_are_tried_at_once(house: House) -> None:
    house.connect()
    house.worker.silent = True
    for asked in range(1, 9):
        house.link.open_fresh()
        house.link.send(*frame(asked))  # answered by the connection that was welcomed, while others are tried
        house.wait_answers(asked)
    eventually(lambda: len(house.worker.on(Lane.LIVE)) == 5, what="four attempts beside the first")
    house.worker.silent = False
    for session in house.worker.on(Lane.LIVE)[1:3]:
        session.peer.send(WELCOME)
    house.wait(Connected, 2, lane=Lane.LIVE)
    house.link.send(*frame(9))
    eventually(lambda: len(house.messages()) == 9, what="an answer over the first that was welcomed")
    assert len(house.worker.on(Lane.LIVE)) == 5


def test_a_worker_that_has_forgotten_a_connection_gets_a_new_one_with_a_new_hello(house: House) -> None:
    house.connect()
    (old,) = house.worker.on(Lane.LIVE)
    first = house.wait(Connected, lane=Lane.LIVE).connection
    old.peer.send(Error(reason=RejectReason.HELLO_REQUIRED, text="who are you", retry=True))
    assert house.wait(Disconnected, lane=Lane.LIVE).connection == first
    assert house.wait(Connected, 2, lane=Lane.LIVE).connection > first
    house.link.send(*frame(1))
    eventually(lambda: len(house.messages()) == 1, what="an answer on the new connection")


def test_a_refused_hello_is_reported_in_words_and_tried_again(house: House) -> None:
    house.worker.refusal = Error(reason=RejectReason.NO_MODEL, text="model x is not served here", retry=True)
    house.place.up()
    house.start()
    for lane in Lane:
        refused = house.wait(Refused, 2, lane=lane)
        assert refused.error == house.worker.refusal
        assert house.link.send(Ping(nonce=1, sent_mono_us=0), lane=lane) is Sent.DOWN
    assert house.all(Connected) == []
    house.worker.refusal = None
    house.wait_connected()


def test_everything_is_reported_by_threads_of_the_links_own_one_event_at_a_time(house: House) -> None:
    house.connect()
    for seq in range(1, 6):
        house.link.open_fresh()
        assert house.link.send(*frame(seq)) is Sent.ACCEPTED
        house.wait_answers(seq)
    house.wait(Connected, 2, lane=Lane.LIVE)
    assert threading.main_thread() not in house.threads
    assert house.overlaps == 0


def connected(house: House) -> None:
    house.connect()


def never_started(house: House) -> None:
    house.place.up()


def without_a_worker(house: House) -> None:
    house.start()


def refused(house: House) -> None:
    house.worker.refusal = Error(reason=RejectReason.NO_MODEL, text="no", retry=False)
    house.place.up()
    house.start()
    house.wait(Refused)


def full(house: House) -> None:
    house.connect()
    house.place.stop_reading()
    message: tuple[ToWorker, ...] = frame(1, b"z" * 1_000_000)
    eventually(
        lambda: house.link.send(*message) is Sent.FULL or bool(house.all(Dropped)), 10.0, "a full lane"
    )


def lost(house: House) -> None:
    house.connect()
    house.place.down()
    house.wait(Disconnected)


@pytest.mark.parametrize("state", [connected, never_started, without_a_worker, refused, full, lost])
def test_closing_takes_at_most_a_second_in_every_state_and_leaves_no_thread(
    house: House, state: Callable[[House], None]
) -> None:
    state(house)
    begun = time.perf_counter()
    house.link.close()
    assert time.perf_counter() - begun < 1.0
    assert [t.name for t in threading.enumerate() if t.name == "link-cable"] == []
    assert house.link.send(*frame(1)) is Sent.DOWN
    house.link.close()
