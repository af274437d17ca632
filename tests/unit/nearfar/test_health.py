"""`nearfar health`: the exit code a container engine reads."""

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from cloud.config import WorkerConfig
from edge.config.pipeline import PipelineConfig
from nearfar.cli import health
from nearfar.cli import main as command_line
from nearfar.http import HttpServer
from pipelines.document import Document

ROOT = Path(__file__).parents[3]
RECIPES = ROOT / "pipelines" / "recipes"


class Page:
    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.server = HttpServer(address="127.0.0.1:0", not_ready=lambda: self.reasons, metrics=bytes)
        self.server.start()

    @property
    def readyz(self) -> str:
        return f"{self.server.address}/readyz"


@pytest.fixture
def page() -> Iterator[Page]:
    made = Page()
    yield made
    made.server.stop()


def test_a_page_that_answers_200_is_healthy(page, capsys):
    assert command_line.run(["health", page.readyz]) == 0
    assert "answers 200: ready" in capsys.readouterr().out


def test_a_worker_that_is_not_ready_is_told_with_its_reason(page, capsys):
    page.reasons = ["draining"]
    assert command_line.run(["health", page.readyz]) == 1
    assert f"{page.readyz} answers 503: draining" in capsys.readouterr().err


def test_the_page_of_life_tells_what_is_amiss_and_stays_200():
    troubles = ["sink plant: 3 answers wait: 503"]
    server = HttpServer(address="127.0.0.1:0", not_ready=list, metrics=bytes, degraded=lambda: troubles)
    assert server.answer("/healthz") == (
        200,
        "text/plain; charset=utf-8",
        b"alive\nsink plant: 3 answers wait: 503\n",
    )
    troubles.clear()
    assert server.answer("/healthz")[2] == b"alive\n"


def test_a_page_that_is_not_there_is_unhealthy(page, capsys):
    assert command_line.run(["health", f"{page.server.address}/nothing"]) == 1
    assert "answers 404" in capsys.readouterr().err


def test_a_closed_port_is_told_in_words(capsys):
    with socket.create_server(("127.0.0.1", 0)) as freed:
        port = freed.getsockname()[1]
    assert command_line.run(["health", f"http://127.0.0.1:{port}/readyz"]) == 1
    assert "nothing listens there" in capsys.readouterr().err


def test_a_name_that_leads_nowhere_is_told_in_the_systems_words(capsys):
    assert command_line.run(["health", "http://nowhere.invalid/readyz"]) == 1
    assert "nowhere.invalid/readyz: " in capsys.readouterr().err


def test_a_server_that_accepts_and_never_answers_costs_two_seconds_and_no_more(capsys, monkeypatch):
    monkeypatch.setattr(health, "WITHIN_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        begun_s = time.monotonic()
        assert command_line.run(["health", f"http://127.0.0.1:{mute.getsockname()[1]}/readyz"]) == 1
        assert time.monotonic() - begun_s < 1.5
    assert "no answer within 0.2 s" in capsys.readouterr().err


def test_a_server_that_drips_bytes_cannot_stretch_the_time(capsys, monkeypatch):
    monkeypatch.setattr(health, "WITHIN_S", 0.3)
    over = threading.Event()

    def drip(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            connection.sendall(b"HTTP/1.0 200 OK\r\n")
            while not over.wait(0.05):
                connection.sendall(b"X-Slow: 1\r\n")

    with socket.create_server(("127.0.0.1", 0)) as server:
        dripping = threading.Thread(target=drip, args=(server,))
        dripping.start()
        begun_s = time.monotonic()
        code = command_line.run(["health", f"http://127.0.0.1:{server.getsockname()[1]}/"])
        took_s = time.monotonic() - begun_s
        over.set()
        dripping.join()
    assert code == 1
    assert took_s < 1.5
    assert "no answer within 0.3 s" in capsys.readouterr().err


def test_what_speaks_no_http_is_unhealthy(capsys):
    def babble(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(1000)
            connection.sendall(b"\x00\x01 not http\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as server:
        babbling = threading.Thread(target=babble, args=(server,))
        babbling.start()
        assert command_line.run(["health", f"http://127.0.0.1:{server.getsockname()[1]}/"]) == 1
        babbling.join()
    assert "error: http://127.0.0.1" in capsys.readouterr().err


def test_a_proxy_of_the_environment_is_not_asked(page, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    assert command_line.run(["health", page.readyz]) == 0


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "zmq://127.0.0.1:7440", "readyz", "http://", "http://h:x/"]
)
def test_an_address_that_is_no_http_url_is_a_usage_error(url, capsys):
    assert command_line.run(["health", url]) == 2
    assert "is no http://" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("service", "recipe", "page"),
    [("worker-a", "compose-worker", "readyz"), ("gateway", "compose-gateway", "healthz")],
)
def test_compose_asks_the_page_each_process_has(service, recipe, page):
    """A worker gets work when it is ready; a gateway whose camera stalls is not mended by starting it again."""
    asked = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"][service]["healthcheck"][
        "test"
    ]
    document = Document.read(RECIPES / f"{recipe}.yaml")
    http = (
        document.validate(WorkerConfig).listen.http
        if service == "worker-a"
        else document.validate(PipelineConfig).http
    )
    assert http is not None
    port = http.address.rpartition(":")[2]
    assert asked == ["CMD", "nearfar", "health", f"http://127.0.0.1:{port}/{page}"]


def test_the_gateway_of_compose_has_a_link_to_each_worker_and_waits_for_nobody():
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    served = Document.read(RECIPES / "compose-worker.yaml").validate(WorkerConfig)
    agent = Document.read(RECIPES / "compose-gateway.yaml").validate(PipelineConfig)
    assert served.listen.zmq is not None
    port = served.listen.zmq.address.rpartition(":")[2]
    workers = [name for name in compose["services"] if name.startswith("worker")]
    assert {name: link.url for name, link in agent.links.items()} == {w: f"zmq://{w}:{port}" for w in workers}
    assert len(workers) == 2
    assert agent.far.model in served.models
    assert "depends_on" not in compose["services"]["gateway"]
    assert all("ports" not in service for service in compose["services"].values())
