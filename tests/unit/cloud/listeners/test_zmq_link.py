"""What only the ZeroMQ link can promise: connections of its own, and nothing a wire brings ends it."""

import socket
from collections.abc import Iterator
from functools import partial

import psutil
import pytest
import zmq

from cloud.listeners.zmq.listener import ZmqListener
from edge.links.base import Connected, Disconnected, Sent
from pipelines.runtime import monotonic_us
from protos.wire.session import Hello, Lane, Ping
from tests.support.endpoints import ScriptedEndpoint
from tests.support.eventually import eventually
from tests.support.wires import Wire

HELLO = Hello(agent="gw", run=bytes(16), lane=Lane.LIVE)


@pytest.fixture
def worker() -> Iterator[tuple[ScriptedEndpoint, ZmqListener]]:
    endpoint = ScriptedEndpoint()
    listener = ZmqListener(endpoint, address="127.0.0.1:0", clock_us=monotonic_us)
    listener.start()
    yield endpoint, listener
    listener.stop()


def port_of(listener: ZmqListener) -> int:
    return int(listener.address.rpartition(":")[2])


def tried(wire: Wire, times: int) -> bool:
    return wire.link.attempts >= times


def test_live_and_bulk_are_two_tcp_connections(worker: tuple[ScriptedEndpoint, ZmqListener]) -> None:
    wire = Wire("zmq", port_of(worker[1]))
    try:
        wire.wait(Connected, 2)
        outgoing = [
            c
            for c in psutil.Process().net_connections("tcp")
            if c.raddr and c.raddr.port == port_of(worker[1]) and c.status == psutil.CONN_ESTABLISHED
        ]
        assert len({c.laddr.port for c in outgoing}) == 2
    finally:
        wire.link.close()


def test_a_name_that_is_none_and_a_port_nobody_serves_are_tried_for_ever() -> None:
    for host, port in (("no-such-host.invalid", 7440), ("127.0.0.1", 1)):
        wire = Wire("zmq", port, host)
        try:
            eventually(partial(tried, wire, 6), 10.0, "three attempts on each lane")
            assert wire.link.send(Ping(nonce=1, sent_mono_us=0)) is Sent.DOWN
            assert wire.events == []
        finally:
            wire.link.close()


def test_a_port_that_accepts_and_never_answers_is_given_up_and_tried_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        mute.settimeout(10.0)
        wire = Wire("zmq", mute.getsockname()[1])
        try:
            accepted = [mute.accept()[0] for _ in range(4)]  # two lanes, twice
            assert wire.events == []
        finally:
            wire.link.close()
        for connection in accepted:
            connection.close()


def test_words_that_are_no_message_are_counted_and_the_connection_lives_on() -> None:
    context = zmq.Context()
    router = context.socket(zmq.ROUTER)
    try:
        port = router.bind_to_random_port("tcp://127.0.0.1")
        wire = Wire("zmq", port)
        try:
            ids = {router.recv_multipart()[0] for _ in range(2)}
            for routing_id in ids:
                for parts in ([b""], [b"\xff", b"x"], [b"\x02", b"\xff\xff"], [b"a", b"b", b"c", b"d"]):
                    router.send_multipart([routing_id, *parts])
            eventually(lambda: wire.link.bad_messages == 8, what="eight bad messages counted")
            assert wire.count(Disconnected) == 0
        finally:
            wire.link.close()
    finally:
        router.close(0)
        context.term()


def test_a_peer_that_does_not_speak_zeromq_leaves_the_listener_serving(
    worker: tuple[ScriptedEndpoint, ZmqListener],
) -> None:
    with socket.create_connection(("127.0.0.1", port_of(worker[1]))) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
        wire = Wire("zmq", port_of(worker[1]))
        try:
            wire.wait(Connected, 2)
        finally:
            wire.link.close()


def test_no_file_descriptor_is_left_after_many_lost_connections() -> None:
    with socket.create_server(("127.0.0.1", 0)) as hang_up:
        hang_up.settimeout(10.0)
        port = hang_up.getsockname()[1]
        before = psutil.Process().num_fds()
        wire = Wire("zmq", port)
        try:
            for _ in range(8):
                hang_up.accept()[0].close()
            during = psutil.Process().num_fds()
        finally:
            wire.link.close()
        eventually(lambda: psutil.Process().num_fds() <= before, 5.0, "as many descriptors as before")
        assert during < before + 40
