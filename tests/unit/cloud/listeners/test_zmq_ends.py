"""How a ZeroMQ listener learns that a connection has ended, which libzmq does not tell of by itself."""

import contextlib
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import psutil
import pytest
import zmq

from cloud.listeners.zmq.ends import LAST_WORDS_US, ZmqEnds
from cloud.listeners.zmq.listener import ZmqListener
from cloud.listeners.zmq.peer import ZmqPeer
from cloud.listeners.zmq.router import has_message, new_router, take_message
from protos.wire.live import FrameBody
from protos.wire.messages import ToWorker
from protos.wire.multipart import Parts, pack_to_worker
from protos.wire.session import Ping
from tests.support.agents import HELLO, agent, frame, greet, port_of
from tests.support.endpoints import ScriptedEndpoint, ScriptedSession
from tests.support.eventually import eventually

FRAMES = 60
RUN_US = 500_000  # 30 s in all: twice the silence that ends a session


class Timed:
    """A frame that takes `RUN_US` of the worker's time, to be run at once on the reading thread."""

    quick = True

    def __init__(self, office: "Office") -> None:
        self._office = office

    def __call__(self) -> None:
        self._office.now_us += RUN_US
        self._office.ended_at_run.append(sum(s.ended for s in self._office.sessions))


class Clerk(ScriptedSession):
    def receive_or_run(self, message: ToWorker, arrived_us: int) -> Timed | None:  # type: ignore[override]
        self.receive(message, arrived_us)
        assert isinstance(self._endpoint, Office)
        return Timed(self._endpoint) if isinstance(message, FrameBody) else None


class Office(ScriptedEndpoint):
    """Where time passes only while frames are run; `ended_at_run`: sessions that had ended at each run."""

    session_type = Clerk

    def __init__(self) -> None:
        super().__init__()
        self.now_us = 1_000_000
        self.ended_at_run: list[int] = []


@pytest.fixture
def office() -> Iterator[tuple[Office, ZmqListener]]:
    made = Office()
    listener = ZmqListener(made, address="127.0.0.1:0", clock_us=lambda: made.now_us)
    listener.start()
    yield made, listener
    made.reading.set()
    listener.stop()
    assert listener.faults == 0


@contextmanager
def dealer(address: str, *, routing_id: bytes = b"") -> Iterator["zmq.Socket[bytes]"]:
    """A connection that has handed over all it was given when it ends."""
    context = zmq.Context()
    made = context.socket(zmq.DEALER)
    if routing_id:
        made.set(zmq.ROUTING_ID, routing_id)
    try:
        made.connect(address)
        yield made
    finally:
        made.close(10_000)
        context.term()


def says(connection: "zmq.Socket[bytes]", *messages: ToWorker) -> None:
    for message in messages:
        connection.send_multipart(pack_to_worker(message))


def ended(sessions: Sequence[ScriptedSession]) -> list[bool]:
    return [session.ended for session in sessions]


def open_at(address: str) -> bool:
    """Whether the listener's side of a connection to this address is open."""
    return any(
        c.laddr.port == port_of(address) and c.status != psutil.CONN_LISTEN
        for c in psutil.Process().net_connections("tcp")
    )


def test_each_of_many_short_connections_ends_though_the_next_gets_its_descriptor(
    office: tuple[Office, ZmqListener],
) -> None:
    made, listener = office
    for _ in range(40):
        with agent(listener.address) as gateway:
            greet(gateway)
    assert len(made.sessions) == 40
    made.now_us += 2 * LAST_WORDS_US
    eventually(lambda: sum(ended(made.sessions)) >= 38, what="the ends of what came before the last look")
    made.now_us += 2 * LAST_WORDS_US
    eventually(lambda: all(ended(made.sessions)), what="the end of all")


def test_what_came_last_is_served_on_the_session_of_a_connection_that_has_ended(
    office: tuple[Office, ZmqListener],
) -> None:
    made, listener = office
    with agent(listener.address) as other:
        with dealer(listener.address) as gateway:
            says(gateway, HELLO)
            assert gateway.poll(10_000), "no Welcome"
            greeting = made.sessions[0]
            greeting.deaf = True  # a reply would find the end by itself
            made.reading.clear()
            says(gateway, Ping(nonce=1, sent_mono_us=0))
            for seq in range(1, 101):
                says(gateway, frame(seq, b"x")[0])
        other.send(HELLO)  # whose first message has the ends looked at
        made.reading.set()
        eventually(lambda: len(made.on(HELLO.lane)) == 2, what="the other's session")
        eventually(lambda: len(greeting.frames) == 100, what="all that was said")
        made.now_us += 2 * LAST_WORDS_US
        eventually(lambda: greeting.ended, what="its end")
        assert ended(made.sessions) == [True, False]


def test_ends_and_silences_are_noticed_while_frames_come_without_a_pause(
    office: tuple[Office, ZmqListener],
) -> None:
    made, listener = office
    with agent(listener.address) as silent, agent(listener.address) as busy:
        greet(silent)
        with agent(listener.address) as gone:
            greet(gone)
            greet(busy)
            made.reading.clear()
            busy.send(Ping(nonce=1, sent_mono_us=0))
            for seq in range(1, FRAMES + 1):
                busy.send(*frame(seq, b"x"))
        made.reading.set()
        eventually(lambda: len(made.ended_at_run) == FRAMES, what="every frame")
    assert 1 in made.ended_at_run[:6], "the one that is gone, within a few seconds"
    assert made.ended_at_run[-1] == 2, "and the silent one"


def test_a_connection_that_takes_the_name_of_one_before_has_a_session_of_its_own(
    office: tuple[Office, ZmqListener],
) -> None:
    made, listener = office
    with dealer(listener.address, routing_id=b"camera") as first:
        says(first, HELLO)
        assert first.poll(10_000), "no Welcome"
    with contextlib.ExitStack() as stack:

        def welcomed() -> "list[zmq.Socket[bytes]]":
            """libzmq turns a name away for as long as it believes in the connection that had it."""
            second = stack.enter_context(dealer(listener.address, routing_id=b"camera"))
            says(second, HELLO)
            return [second] if second.poll(500) else []

        (second,) = eventually(welcomed, 10.0, "a Welcome for the second")
        second.recv_multipart()
        eventually(lambda: made.sessions[0].ended, what="the end of the first")
        made.now_us += 2 * LAST_WORDS_US
        says(second, Ping(nonce=1, sent_mono_us=0))
        assert second.poll(10_000), "no Pong"
        assert made.sessions[-1].received == [HELLO, Ping(nonce=1, sent_mono_us=0)]
        assert not made.sessions[-1].ended


def test_a_peer_of_an_old_zeromq_is_served_and_ends_by_its_silence(
    office: tuple[Office, ZmqListener],
) -> None:
    """ZMTP 2 has no properties, so libzmq does not say which connection its messages came on."""
    made, listener = office
    signature, dealer_of_zmtp_2 = b"\xff" + bytes(7) + b"\x01\x7f", b"\x01\x05"
    with socket.create_connection(("127.0.0.1", port_of(listener.address)), 10.0) as old:
        old.sendall(signature + dealer_of_zmtp_2 + b"\x00\x00")  # and an empty name
        *first, last = [bytes(part) for part in pack_to_worker(HELLO)]
        for flags, part in [*((1, part) for part in first), (0, last)]:
            old.sendall(bytes([flags, len(part)]) + part)
        old.settimeout(10.0)
        (session,) = eventually(lambda: made.on(HELLO.lane), what="its Hello")
        assert old.recv(1)
    made.now_us += 60_000_000
    eventually(lambda: session.ended, what="its end")


class Nobody:
    """Who sends nothing for its peers."""

    def transmit(self, peer: ZmqPeer, parts: Parts) -> bool:
        return False

    def look_at(self, peer: ZmqPeer) -> None: ...


@contextmanager
def ends() -> Iterator[tuple["zmq.Socket[bytes]", ZmqEnds, str]]:
    """A bound router that nobody reads by itself, and its address."""
    context = zmq.Context()
    router = new_router(context, max_message_bytes=1000)
    made = ZmqEnds(context, router)
    router.bind("tcp://127.0.0.1:*")
    try:
        yield router, made, router.get_string(zmq.LAST_ENDPOINT)
    finally:
        made.close()
        router.close(0)
        context.term()


def arrived(router: "zmq.Socket[bytes]") -> tuple[ZmqPeer, zmq.Frame]:
    """Whose the next message is, and its last part."""
    eventually(lambda: has_message(router), what="a message")
    message = take_message(router)
    assert message is not None
    return ZmqPeer(Nobody(), message[0]), message[2]


def test_a_peer_is_over_a_moment_after_its_end_or_a_second_after_while_messages_keep_coming() -> None:
    with ends() as (router, made, address):
        with dealer(address) as connection:
            connection.send(b"x")
            peer, frame = arrived(router)
            made.came(peer, frame, 0)
            assert not made.waiting

        def told() -> bool:
            made.look(1_000)
            return made.waiting

        eventually(told, what="the end")
        assert made.has_ended(peer)
        assert made.over(1_000 + LAST_WORDS_US - 1, dry=True) == []
        assert made.over(1_000 + LAST_WORDS_US, dry=True) == [peer]
        assert made.over(1_000_999, dry=False) == []
        assert made.over(1_001_000, dry=False) == [peer]
        made.forget(peer)
        assert not made.waiting


def test_a_peer_whose_connection_had_ended_before_its_first_message_was_read_has_ended() -> None:
    with ends() as (router, made, address):
        with dealer(address) as connection:
            connection.send(b"x")
        peer, frame = arrived(router)
        eventually(lambda: not open_at(address), what="the end of the connection")
        made.came(peer, frame, 0)
        assert made.has_ended(peer)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_of_two_that_came_on_one_descriptor_the_later_is_there(order: tuple[int, int]) -> None:
    """In whichever order their messages are read."""
    with ends() as (router, made, address):
        with dealer(address) as connection:
            connection.send(b"first")
        first = arrived(router)
        eventually(lambda: not open_at(address), what="the end of the connection")
        with dealer(address) as connection:
            connection.send(b"second")
            second = arrived(router)
            assert first[1].get(zmq.SRCFD) == second[1].get(zmq.SRCFD)
            for one in order:
                made.came(*(first, second)[one], 0)
            assert made.has_ended(first[0])
            assert not made.has_ended(second[0])
