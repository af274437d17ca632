"""What a load balancer, a supervisor and Prometheus see of a worker."""

import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from cloud.telemetry.metrics import WorkerMetrics
from nearfar.http import SEAT_S, SEATS, HttpServer
from pipelines.errors import ConfigError
from protos.wire.session import Hello, Lane, RejectReason
from tests.support.eventually import eventually
from tests.support.ipv6 import need_ipv6
from tests.support.peers import FakePeer
from tests.support.workers import MODEL, service


class Site:
    def __init__(self, address: str = "127.0.0.1:0", *, seat_s: float = SEAT_S) -> None:
        self.reasons: list[str] = []
        self.metrics = WorkerMetrics()
        self.server = HttpServer(
            address=address, not_ready=lambda: self.reasons, metrics=self.metrics.text, seat_s=seat_s
        )
        self.server.start()

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(self.server.address + path, timeout=5) as reply:  # noqa: S310 - our own http address
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    yield made
    made.server.stop()


def test_who_is_ready_and_degraded_says_both() -> None:
    server = HttpServer(
        address="127.0.0.1:0", not_ready=list, metrics=bytes, degraded=lambda: ["link lte: link silent"]
    )
    assert server.answer("/readyz")[::2] == (200, b"ready, degraded: link lte: link silent\n")


def test_a_ready_worker_says_so_and_a_busy_reason_is_in_words(site: Site) -> None:
    assert site.get("/healthz") == (200, "alive\n")
    assert site.get("/readyz") == (200, "ready\n")
    site.reasons = ["draining", "the record store cannot write: disk is full"]
    assert site.get("/readyz") == (503, "draining; the record store cannot write: disk is full\n")
    assert site.get("/healthz")[0] == 200


def test_metrics_are_prometheus_text_with_units_in_the_names(site: Site) -> None:
    site.metrics.rejects.labels(RejectReason.TOO_LATE.value).inc()
    status, text = site.get("/metrics")
    assert status == 200
    assert 'nearfar_worker_rejects_total{reason="too_late"} 1.0' in text
    assert "nearfar_worker_resident_seconds_count 0.0" in text


def test_an_unknown_page_names_those_there_are(site: Site) -> None:
    status, text = site.get("/")
    assert status == 404
    assert "/readyz" in text


def test_an_address_in_use_is_named_with_its_key(site: Site) -> None:
    taken = site.server.address.removeprefix("http://")
    second = HttpServer(address=taken, not_ready=list, metrics=bytes, key="listen.http.address")
    with pytest.raises(
        ConfigError, match=r"listen\.http\.address: .* cannot be bound: Address already in use by process"
    ):
        second.start()


def test_a_page_that_fails_says_so_and_the_others_go_on() -> None:
    def broken() -> bytes:
        raise RuntimeError("no numbers today")

    server = HttpServer(address="127.0.0.1:0", not_ready=list, metrics=broken)
    server.start()
    try:
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(f"{server.address}/metrics", timeout=5)  # noqa: S310 - our own http address
        with caught.value as refusal:
            assert refusal.code == 500
        with urllib.request.urlopen(f"{server.address}/healthz", timeout=5) as reply:  # noqa: S310
            assert reply.status == 200
    finally:
        server.stop()


def test_clients_that_hang_take_no_more_than_their_seats(site: Site) -> None:
    host, _, port = site.server.address.removeprefix("http://").rpartition(":")
    before = threading.active_count()
    hanging = [socket.create_connection((host, int(port)), timeout=5) for _ in range(3 * SEATS)]
    try:
        # those beyond the seats are shown the door at once
        for line in hanging[SEATS:]:
            line.settimeout(5)
            assert line.recv(1) == b""
        assert threading.active_count() - before <= SEATS
    finally:
        for line in hanging:
            line.close()
    assert eventually(lambda: site.get("/healthz"), what="the page for a decent client") == (200, "alive\n")


@contextmanager
def dripping(site: Site, count: int, *, first: bytes) -> Iterator[list[socket.socket]]:
    """Connections that say `first` and then a byte every 20 ms, for as long as they are let."""
    host, _, port = site.server.address.removeprefix("http://").rpartition(":")
    lines = [socket.create_connection((host, int(port)), timeout=5) for _ in range(count)]
    for line in lines:
        line.sendall(first)
    over = threading.Event()

    def drip() -> None:
        while not over.wait(0.02):
            for line in lines:
                with suppress(OSError):
                    line.sendall(b"x")

    thread = threading.Thread(target=drip)
    thread.start()
    try:
        yield lines
    finally:
        over.set()
        thread.join()
        for line in lines:
            line.close()


@pytest.mark.parametrize("first", [b"GET /", b"GET /healthz HTTP/1.0\r\nX-Slow: "], ids=["request", "header"])
def test_a_decent_client_is_served_while_others_drip_on_every_seat(first: bytes) -> None:
    site = Site(seat_s=0.3)
    try:
        with dripping(site, SEATS, first=first):
            assert eventually(lambda: decent(site), what="a seat for a decent client") == (200, "alive\n")
    finally:
        site.server.stop()


def test_a_client_that_takes_nothing_of_a_long_answer_loses_its_seat() -> None:
    server = HttpServer(address="127.0.0.1:0", not_ready=list, metrics=lambda: bytes(32 << 20), seat_s=0.2)
    before = set(threading.enumerate())
    server.start()
    try:
        host, _, port = server.address.removeprefix("http://").rpartition(":")
        with socket.create_connection((host, int(port)), timeout=5) as line:
            line.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            assert line.recv(1) == b"H"
            eventually(
                lambda: not [t for t in set(threading.enumerate()) - before if t.name != "nearfar-http"],
                what="the end of its thread",
            )
    finally:
        server.stop()


def test_a_stop_waits_for_no_client() -> None:
    site = Site()
    with dripping(site, 2, first=b"GET /") as lines:
        site.server.stop()
        for line in lines:
            with suppress(ConnectionError):
                assert line.recv(1) == b""


def test_a_connection_no_thread_could_be_started_for_gives_its_seat_back(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, _, port = site.server.address.removeprefix("http://").rpartition(":")

    def none_left(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", none_left)
        for _ in range(SEATS + 1):
            with socket.create_connection((host, int(port)), timeout=5) as line:
                assert line.recv(1) == b""
    assert site.get("/healthz") == (200, "alive\n")


def decent(site: Site) -> tuple[int, str] | None:
    """What it is told, None when it is shown the door."""
    try:
        return site.get("/healthz")
    except OSError:
        return None


def test_binding_asks_no_name_server(monkeypatch: pytest.MonkeyPatch) -> None:
    # A gateway without a name server would wait for seconds for a name it never needs.
    monkeypatch.setattr(socket, "getfqdn", lambda *_: pytest.fail("a name was looked up"))
    site = Site()
    site.server.stop()


def test_an_ipv6_address_is_served_and_named_in_brackets() -> None:
    need_ipv6()
    site = Site("[::1]:0")
    try:
        assert site.server.address.startswith("http://[::1]:")
        assert site.get("/healthz") == (200, "alive\n")
    finally:
        site.server.stop()


def test_a_stopped_server_leaves_no_thread() -> None:
    site = Site()
    site.server.stop()
    assert all(t.name != "nearfar-http" for t in threading.enumerate())


def test_a_worker_whose_model_or_store_is_broken_is_not_ready(tmp_path: Path) -> None:
    with service(tmp_path) as (made, _):
        assert made.not_ready() == []
        made.backlog.work.broke(MODEL, back_us=0)
        made.writer.trouble = "the record store cannot write: disk is full"
        assert made.not_ready() == [
            "model synthetic is not loaded",
            "the record store cannot write: disk is full",
        ]


def test_what_the_store_writer_counts_is_shown(tmp_path: Path) -> None:
    with service(tmp_path) as (made, _):
        made.writer.committed, made.writer.rejected, made.writer.dropped = 5, 2, 3
        text = made.metrics.text().decode()
        for name, count in (("committed", 5), ("rejected", 2), ("dropped", 3)):
            assert f"nearfar_worker_store_rows_{name}_total {count}.0" in text
            assert f"# TYPE nearfar_worker_store_rows_{name}_total counter" in text


def test_gauges_are_read_when_they_are_asked_for(tmp_path: Path) -> None:
    with service(tmp_path) as (made, _):
        assert made.metrics.value("nearfar_worker_sessions") == 0
        made.open(FakePeer()).receive(Hello(agent="gw", run=bytes(16), lane=Lane.BULK), 0)
        assert made.metrics.value("nearfar_worker_sessions") == 1
        assert b"nearfar_worker_queue_frames 0.0" in made.metrics.text()


@pytest.mark.parametrize(
    "line", [b"nonsense\r\n\r\n", b"GET / HTTP/x\r\n\r\n", b"\x16\x03\x01 a b c\r\n\r\n"]
)
def test_what_is_no_http_is_answered_with_a_status_line_and_plain_words(site: Site, line: bytes) -> None:
    host, _, port = site.server.address.removeprefix("http://").rpartition(":")
    with socket.create_connection((host, int(port)), timeout=5) as client:
        client.sendall(line)
        said = b"".join(iter(lambda: client.recv(4096), b""))
    assert said.startswith(b"HTTP/1.0 400 ")
    assert b"text/plain" in said
    assert b"<" not in said
