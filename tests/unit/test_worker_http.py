"""What a load balancer, a supervisor and Prometheus see of a worker."""

import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from cloud.metrics import WorkerMetrics
from nearfar.http import SEATS, HttpServer
from pipelines.errors import ConfigError
from protos.wire.session import Hello, Lane, RejectReason
from tests.support.eventually import eventually
from tests.support.ipv6 import need_ipv6
from tests.support.peers import FakePeer
from tests.support.workers import MODEL, service


class Site:
    def __init__(self, address: str = "127.0.0.1:0") -> None:
        self.reasons: list[str] = []
        self.metrics = WorkerMetrics()
        self.server = HttpServer(address=address, not_ready=lambda: self.reasons, metrics=self.metrics.text)
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


def test_a_ready_worker_says_so_and_a_busy_reason_is_in_words(site: Site) -> None:
    assert site.get("/healthz") == (200, "alive\n")
    assert site.get("/readyz") == (200, "ready\n")
    site.reasons = ["draining", "the record store cannot write: disk is full"]
    assert site.get("/readyz") == (503, "draining; the record store cannot write: disk is full\n")
    assert site.get("/healthz")[0] == 200


def test_metrics_are_prometheus_text_with_units_in_the_names(site: Site) -> None:
    site.metrics.rejects.labels(RejectReason.TOO_LATE.value).inc()
    site.metrics.service_seconds.labels("m").observe(0.02)
    status, text = site.get("/metrics")
    assert status == 200
    assert 'nearfar_worker_rejects_total{reason="too_late"} 1.0' in text
    assert 'nearfar_worker_service_seconds_bucket{le="0.02",model="m"} 1.0' in text


def test_an_unknown_page_names_those_there_are(site: Site) -> None:
    status, text = site.get("/")
    assert status == 404
    assert "/readyz" in text


def test_an_address_in_use_is_named_with_its_key(site: Site) -> None:
    taken = site.server.address.removeprefix("http://")
    second = HttpServer(address=taken, not_ready=list, metrics=bytes, key="listen.http.address")
    with pytest.raises(
        ConfigError, match=r"listen\.http\.address: .* cannot be bound: Address already in use"
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
        made.backlog.ready(MODEL, change=-1)
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
