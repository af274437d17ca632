"""Every key of `listen` and `ray` in a worker file reaches what it names."""

import socket
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

import cloud.worker
from cloud.config import WorkerConfig, load_worker
from cloud.deploy import serve_options
from cloud.deploy.settings import RayConfig
from cloud.listeners.kinds import LISTENERS
from nearfar.http import serving
from pipelines.errors import ConfigError
from pipelines.registry import Kind

WORKER = """\
version: 1
state_dir: worker
listen:
  zmq: {address: "127.0.0.2:7001"}
  grpc: {address: "127.0.0.3:7002"}
models: {rehearsal: {detector: {kind: synthetic}}}
"""


def told(folder: Path, monkeypatch: pytest.MonkeyPatch, *sets: str) -> dict[str, dict[str, Any]]:
    """What each listener of a worker is made with, by its kind."""
    seen: dict[str, dict[str, Any]] = {}
    resolve = Kind.resolve

    class Told:
        refused_messages = faults = 0

        def __init__(self, name: str, options: dict[str, Any]) -> None:
            seen[name] = options
            self.address = f"{name} at {options['address']}"
            self.trouble: list[str] = []
            self.left_behind: list[str] = []

        def start(self) -> None:
            """Binds nothing."""

        def halt(self) -> None:
            """Nothing to stop."""

        def stop(self, within_s: float = 1.0) -> None:
            """Nothing to end."""

    def resolved(kind: Kind) -> Any:
        if kind not in [*LISTENERS]:
            return resolve(kind)
        return lambda _service, **options: Told(kind.name, options)

    monkeypatch.setattr(Kind, "resolve", resolved)
    (folder / "worker.yaml").write_text(WORKER)
    worker = cloud.worker.Worker(load_worker(folder / "worker.yaml", sets))
    try:
        worker.start()
        shown = {name: worker.ready_fields()[name] for name in seen}
        assert shown == {name: f"{name} at {options['address']}" for name, options in seen.items()}
    finally:
        worker.drain(1_000_000)
    return seen


def test_each_listener_of_the_file_is_made_with_its_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = told(tmp_path, monkeypatch)
    assert {name: options["address"] for name, options in made.items()} == {
        "zmq": "127.0.0.2:7001",
        "grpc": "127.0.0.3:7002",
    }


@pytest.mark.parametrize("kind", ["zmq", "grpc"])
def test_a_listener_the_file_leaves_out_is_not_made(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = told(tmp_path, monkeypatch, f"listen={{{kind}: {{address: 127.0.0.1:0}}}}")
    assert list(made) == [kind]


@pytest.mark.parametrize("wanted", [True, False])
def test_whether_grpc_clients_may_list_what_there_is_reaches_the_listener(
    wanted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = told(tmp_path, monkeypatch, f"listen.grpc.reflection={str(wanted).lower()}")
    assert made["grpc"]["reflection"] is wanted


@pytest.mark.parametrize("kind", ["zmq", "grpc", "http"])
def test_an_address_that_others_reach_is_refused_unless_the_file_says_insecure(
    kind: str, tmp_path: Path
) -> None:
    (tmp_path / "worker.yaml").write_text(WORKER)
    outside = f"listen.{kind}={{address: 0.0.0.0:0}}"
    with pytest.raises(ConfigError, match="reachable from outside"):
        load_worker(tmp_path / "worker.yaml", [outside])
    open_to_all = outside.replace("}", ", insecure: true}")
    config = load_worker(tmp_path / "worker.yaml", [open_to_all])
    assert getattr(config.listen, kind).address == "0.0.0.0:0"


def test_health_is_served_where_the_file_says(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (tmp_path / "worker.yaml").write_text(WORKER)
    config = load_worker(tmp_path / "worker.yaml", [f"listen.http={{address: 127.0.0.1:{port}}}"])
    with serving(
        config.listen.http, key="listen.http.address", not_ready=list, degraded=list, metrics=bytes
    ) as address:
        assert address == f"http://127.0.0.1:{port}"
        with closing(HTTPConnection("127.0.0.1", port, timeout=5)) as client:
            client.request("GET", "/healthz")
            assert client.getresponse().status == 200


RAY = "min_replicas: 2, max_replicas: 6, busy: 60%, up_after: 20s, down_after: 10m, ingress: head, cpus: 3"
CHANGED = {
    "min_replicas": "3",
    "max_replicas": "7",
    "cpus": "4",
    "ingress": "every_node",
    "busy": "50%",
    "up_after": "30s",
    "down_after": "1m",
}
ELSEWHERE = {"stream_for"}  # of a replica, not of Serve: test_ray_replica


def document(folder: Path, *sets: str) -> dict[str, Any]:
    (folder / "worker.yaml").write_text(WORKER)
    store = "store.url=postgresql+psycopg://someone@db/records"
    listen = "listen={grpc: {address: '0.0.0.0:20443', insecure: true}}"
    config: WorkerConfig = load_worker(folder / "worker.yaml", [store, listen, f"ray={{{RAY}}}", *sets])
    return serve_options.serve_file(config, folder / "worker.yaml", ())


def test_every_key_of_ray_is_looked_at_here() -> None:
    assert set(RayConfig.model_fields) == CHANGED.keys() | ELSEWHERE


@pytest.mark.parametrize("key", CHANGED)
def test_each_key_of_ray_changes_what_serve_is_told_and_nothing_else(key: str, tmp_path: Path) -> None:
    before = flat(document(tmp_path))
    after = flat(document(tmp_path, f"ray.{key}={CHANGED[key]}"))
    assert len([name for name in before.keys() | after.keys() if before.get(name) != after.get(name)]) == 1


def flat(value: Any, name: str = "") -> dict[str, Any]:
    if isinstance(value, dict):
        return {k: v for key, inner in value.items() for k, v in flat(inner, f"{name}.{key}").items()}
    if isinstance(value, list):
        return {k: v for n, inner in enumerate(value) for k, v in flat(inner, f"{name}.{n}").items()}
    return {name: value}
