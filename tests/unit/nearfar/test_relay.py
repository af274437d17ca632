"""A rehearsed link is as bad as it was asked to be, and never worse: bytes arrive unchanged and in order."""

import hashlib
import random
import socket
import statistics
import threading
import time
from collections.abc import Iterator

import pytest

from nearfar.relay import Relay, parse_address
from pipelines.errors import ConfigError
from tests.support.eventually import eventually

PATIENCE_S = 20.0


class Echo:
    """A server that sends back what it gets; `connections` counts those it accepted."""

    def __init__(self) -> None:
        self.server = socket.create_server(("127.0.0.1", 0))
        self.connections = 0
        self._threads: list[threading.Thread] = []
        self._open: list[socket.socket] = []
        self._accepting = threading.Thread(target=self._accept)
        self._accepting.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server.getsockname()[1]}"

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.server.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection,))
            thread.start()
            self._threads.append(thread)

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                while data := connection.recv(65_536):
                    connection.sendall(data)
            except OSError:
                return

    def close(self) -> None:
        self.server.shutdown(socket.SHUT_RDWR)
        self.server.close()
        self._accepting.join(5)
        for connection in self._open:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # ended already
        for thread in self._threads:
            thread.join(5)


@pytest.fixture
def echo() -> Iterator[Echo]:
    made = Echo()
    yield made
    made.close()


@pytest.fixture
def relay(echo: Echo) -> Iterator[Relay]:
    made = Relay("127.0.0.1:0", echo.address)
    made.start()
    yield made
    made.stop()


def dial(relay: Relay) -> socket.socket:
    connection = socket.create_connection(parse_address(relay.address), timeout=PATIENCE_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def read(connection: socket.socket, size: int) -> bytes:
    out = bytearray()
    while len(out) < size:
        data = connection.recv(min(65_536, size - len(out)))
        assert data, f"the connection ended after {len(out)} of {size} bytes"
        out += data
    return bytes(out)


def round_trips_ms(connection: socket.socket, count: int) -> list[float]:
    out = []
    for i in range(count):
        begun = time.perf_counter()
        connection.sendall(b"%8d" % i)
        assert read(connection, 8) == b"%8d" % i
        out.append((time.perf_counter() - begun) * 1000)
    return out


@pytest.mark.parametrize("rtt_ms", [0, 20, 100])
def test_a_round_trip_takes_as_long_as_asked(relay: Relay, rtt_ms: int) -> None:
    relay.set(rtt_ms=rtt_ms)
    with dial(relay) as connection:
        measured = round_trips_ms(connection, 15)
    assert min(measured) >= rtt_ms - 1
    assert statistics.median(measured) <= rtt_ms + 6


def test_the_round_trip_changes_under_a_living_connection(relay: Relay) -> None:
    with dial(relay) as connection:
        fast = statistics.median(round_trips_ms(connection, 5))
        relay.set(rtt_ms=80)
        slow = statistics.median(round_trips_ms(connection, 5))
        relay.set(rtt_ms=0)
        round_trips_ms(connection, 1)
        again = statistics.median(round_trips_ms(connection, 5))
    assert fast < 20
    assert 79 <= slow < 100
    assert again < 20


def test_the_rate_is_as_asked_within_a_tenth(relay: Relay) -> None:
    relay.set(rate_mbit=8)
    size = 800_000  # 0.8 s at 8 Mbit/s, one way after the other overlapping
    data = bytes(size)
    with dial(relay) as connection:
        begun = time.perf_counter()
        sender = threading.Thread(target=connection.sendall, args=(data,))
        sender.start()
        assert read(connection, size) == data
        took_s = time.perf_counter() - begun
        sender.join()
    assert 7.2 <= size * 8 / 1e6 / took_s <= 8.8


def test_the_rate_is_shared_by_all_connections(relay: Relay) -> None:
    relay.set(rate_mbit=8)
    with dial(relay) as one, dial(relay) as two:
        begun = time.perf_counter()
        for connection in (one, two):
            connection.sendall(bytes(200_000))
        for connection in (one, two):
            read(connection, 200_000)
        took_s = time.perf_counter() - begun
    assert took_s >= 0.36  # 3.2 Mbit in all


def test_bytes_arrive_unchanged_and_in_order_over_delay_and_rate(relay: Relay) -> None:
    relay.set(rtt_ms=10, rate_mbit=100)
    data = random.Random(7).randbytes(2_000_000)
    with dial(relay) as connection:
        sender = threading.Thread(target=connection.sendall, args=(data,))
        sender.start()
        got = read(connection, len(data))
        sender.join()
    assert hashlib.sha256(got).digest() == hashlib.sha256(data).digest()
    eventually(lambda: min(relay.up.bytes, relay.down.bytes) >= len(data), what="every byte counted")


def test_a_shorter_delay_lets_nothing_overtake(relay: Relay) -> None:
    relay.set(rtt_ms=200)
    with dial(relay) as connection:
        connection.sendall(b"first, ")
        relay.set(rtt_ms=0)
        connection.sendall(b"second")
        assert read(connection, 13) == b"first, second"


def test_a_stall_holds_everything_and_then_delivers_it(relay: Relay) -> None:
    with dial(relay) as connection:
        round_trips_ms(connection, 1)
        relay.set(state="stall")
        connection.sendall(b"held")
        connection.settimeout(0.3)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        relay.set(state="pass")
        connection.settimeout(PATIENCE_S)
        assert read(connection, 4) == b"held"


def test_a_reset_ends_every_connection_with_rst_and_refuses_until_healed(relay: Relay) -> None:
    with dial(relay) as one, dial(relay) as two:
        for connection in (one, two):
            round_trips_ms(connection, 1)
        relay.set(state="reset")
        for connection in (one, two):
            with pytest.raises(ConnectionResetError):
                connection.recv(1)
    with pytest.raises(ConnectionRefusedError):
        dial(relay)
    relay.set(state="pass")
    with dial(relay) as connection:
        round_trips_ms(connection, 1)


def test_an_end_reaches_the_other_side(relay: Relay, echo: Echo) -> None:
    with dial(relay) as connection:
        connection.sendall(b"last words")
        assert read(connection, 10) == b"last words"
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1) == b""
    assert echo.connections == 1


def test_nobody_behind_the_relay_ends_the_connection_and_not_the_relay(echo: Echo) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        address = f"127.0.0.1:{gone.getsockname()[1]}"
    relay = Relay("127.0.0.1:0", address)
    relay.start()
    try:
        for _ in range(2):
            with dial(relay) as connection:
                try:
                    assert connection.recv(1) == b""
                except ConnectionResetError:
                    continue  # the shorter way to say the same
    finally:
        relay.stop()


def test_a_port_in_use_and_an_address_that_is_none_are_refused_in_words(echo: Echo) -> None:
    with pytest.raises(ConfigError, match=r"cannot listen on 127.0.0.1:\d+: Address already in use"):
        Relay(echo.address, echo.address).start()
    for text in ("7440", ":7440", "host:", "host:port", "host:70000"):
        with pytest.raises(ConfigError, match="is no address; write HOST:PORT"):
            parse_address(text)
    assert parse_address("[::1]:7440") == ("::1", 7440)


def test_a_state_that_is_none_is_refused_in_words(relay: Relay) -> None:
    with pytest.raises(ConfigError, match="it has pass, stall, reset"):
        relay.set(state="melt")  # type: ignore[arg-type]


def test_stopping_leaves_nothing_behind_in_any_state(echo: Echo) -> None:
    for state in ("pass", "stall", "reset") * 4:
        relay = Relay("127.0.0.1:0", echo.address)
        relay.start()
        with dial(relay) as connection:
            connection.sendall(b"x")
            relay.set(state=state, rtt_ms=50)
            relay.stop()
        eventually(lambda: "relay" not in [t.name for t in threading.enumerate()], what="the relay's end")
