"""What is decided about a worker on Ray without a Ray: its file, its refusals, its scaling, its metrics."""

import socket
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from prometheus_client.parser import text_string_to_metric_families

from cloud.config import WorkerConfig, load_worker
from cloud.deploy import serve_options
from cloud.deploy.busyness import Busyness
from cloud.deploy.cluster import RayCluster
from cloud.deploy.exposition import together
from cloud.deploy.kinds import DEPLOYMENTS
from cloud.deploy.scaling import BUSY, ByBusyness
from cloud.telemetry.metrics import WorkerMetrics
from nearfar.cli.main import nearfar
from pipelines.errors import ConfigError, Fatal
from pipelines.registry import Kind

WORKER = """\
version: 1
listen: {grpc: {address: "0.0.0.0:20443", insecure: true}}
models:
  big: {detector: {kind: synthetic}, instances: 2, threads: 3}
  small: {detector: {kind: synthetic}}
default_model: big
store: {url: "postgresql+psycopg://someone:secret@db/records"}
drain: 7s
"""
RAY = ("ray={min_replicas: 2, max_replicas: 6, busy: 60%, up_after: 20s, down_after: 10m, ingress: head}",)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "worker.yaml"
    made.write_text(WORKER)
    return made


def worker(path: Path, *sets: str) -> WorkerConfig:
    return load_worker(path, sets)


def only(document: dict[str, Any]) -> dict[str, Any]:
    ((application,), (deployment,)) = (
        document["applications"],
        document["applications"][0]["deployments"],
    )
    assert application["name"] == serve_options.APPLICATION
    return dict(deployment)


def test_the_file_of_serve_deploy_holds_what_the_worker_file_says_and_no_password(path: Path) -> None:
    told = CliRunner().invoke(
        nearfar, ["cloud", str(path), "--set", RAY[0], "--deploy", "ray", "--write-config", "-"]
    )
    assert told.exit_code == 0, told.output
    assert "secret" not in told.output
    document = yaml.safe_load(told.output)
    assert document["proxy_location"] == "HeadOnly"
    assert document["grpc_options"] == {"port": 20443, "grpc_servicer_functions": [serve_options.SERVICER]}
    arguments = document["applications"][0]["args"]
    assert (arguments["worker"], arguments["set"]) == (str(path), [RAY[0]])
    deployment = only(document)
    assert deployment["graceful_shutdown_timeout_s"] == 12.0
    assert deployment["ray_actor_options"] == {"num_cpus": 7.0}
    assert "num_replicas" not in deployment
    scaling = deployment["autoscaling_config"]
    assert (scaling["min_replicas"], scaling["max_replicas"]) == (2, 6)
    assert (scaling["upscale_delay_s"], scaling["downscale_delay_s"]) == (20.0, 600.0)
    assert scaling["policy"]["policy_kwargs"] == {"busy": 0.6}


def test_a_number_of_replicas_that_does_not_change_needs_no_scaling(path: Path) -> None:
    deployment = only(serve_options.serve_file(worker(path, "ray={min_replicas: 3, cpus: 0.5}"), path, ()))
    assert deployment["num_replicas"] == 3
    assert deployment["ray_actor_options"] == {"num_cpus": 0.5}
    assert "autoscaling_config" not in deployment


def test_only_what_a_running_replica_cannot_take_over_makes_a_new_version_of_it(path: Path) -> None:
    """Serve replaces every replica when the arguments differ, and adds or removes some when they do not."""

    def version(*sets: str) -> str:
        return str(serve_options.arguments(worker(path, *sets), path, ())["version"])

    assert version() == version("ray={min_replicas: 3, cpus: 0.5}") == version("drain=9s")
    assert version() != version("models.small.instances=2")
    assert version() == version("store.url=postgresql+psycopg://someone:other@db/records")
    assert version() != version("store.url=postgresql+psycopg://someone:secret@db2/records")


def test_a_password_on_the_command_line_is_not_written_into_the_file(path: Path) -> None:
    sets = ("store.url=postgresql+psycopg://someone:other@db/records",)
    with pytest.raises(ConfigError, match="password") as caught:
        serve_options.serve_file(worker(path, *sets), path, sets)
    assert "other" not in str(caught.value)


@pytest.mark.parametrize(
    ("sets", "words"),
    [
        (("listen.grpc.address=127.0.0.1:20443",), "every interface"),
        (("listen.grpc.address=0.0.0.0:0",), "20000 and more"),
        (("listen.grpc.address=0.0.0.0:12000",), "10002 to 19999"),
        (("listen.zmq.address=127.0.0.1:7440",), "gRPC alone"),
        (("listen={zmq: {address: '127.0.0.1:7440'}}",), "needs a port"),
    ],
)
def test_what_cannot_be_kept_behind_serve_is_refused_in_words(
    path: Path, sets: tuple[str, ...], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        serve_options.must_fit(worker(path, *sets))


@pytest.mark.parametrize(
    ("sets", "words"),
    [
        (("ray.max_replicas=2", "store.url=sqlite:///records.db"), "postgresql"),
        (("ray={min_replicas: 3, max_replicas: 2}",), "less than min_replicas"),
        (("ray.busy=0%",), "more than 0%"),
        (("ray.stream_for=1s",), "10s or more"),
    ],
)
def test_a_file_that_says_what_cannot_be_is_refused_in_words(
    path: Path, sets: tuple[str, ...], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        worker(path, *sets)


def test_replicas_that_have_no_place_are_told_before_anybody_waits_for_them(path: Path) -> None:
    assert serve_options.too_many(worker(path), 7.0) == ""
    assert "2 replicas need 7 cores each" in serve_options.too_many(worker(path, "ray.min_replicas=2"), 8.0)
    assert "1 replica needs 14 cores" in serve_options.too_many(worker(path, "processes=2"), 13.0)


def test_a_file_of_serve_deploy_that_cannot_be_written_is_told_in_words(path: Path, tmp_path: Path) -> None:
    where = tmp_path / "none" / "serve.yaml"
    told = CliRunner().invoke(nearfar, ["cloud", str(path), "--deploy", "ray", "--write-config", str(where)])
    assert isinstance(told.exception, ConfigError)
    assert str(told.exception) == f"cannot write {where}: No such file or directory"


def test_the_ingress_of_a_serve_that_runs_already_is_ours_or_named(path: Path) -> None:
    config = worker(path)
    assert serve_options.not_our_ingress(config, port=20443, servicers=[serve_options.SERVICER]) == ""
    assert "port 9000, other" in serve_options.not_our_ingress(config, port=9000, servicers=["other"])
    assert "no gRPC at all" in serve_options.not_our_ingress(config, port=20443, servicers=[])


def test_a_ray_that_ended_in_the_same_breath_is_not_waited_for_and_the_cause_is_told(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    pool, over = ThreadPoolExecutor(1), threading.Event()
    monkeypatch.setattr("cloud.deploy.cluster.ThreadPoolExecutor", lambda *_, **__: pool)
    cluster = RayCluster(worker(path), worker=path, overrides=(), address="")
    monkeypatch.setattr(cluster, "_joined", True)
    monkeypatch.setattr(cluster, "_gcs", f"127.0.0.1:{port}")
    monkeypatch.setattr(cluster, "_stop", over.wait)
    try:
        assert not cluster.stop()
        assert "KillMode=mixed" in caplog.text
    finally:
        over.set()
        pool.shutdown()


def test_options_of_an_engine_without_one_are_refused(path: Path) -> None:
    for option in (["--ray-address", "auto"], ["--write-config", "-"]):
        told = CliRunner().invoke(nearfar, ["cloud", str(path), *option])
        assert told.exit_code == 2
        assert "--deploy ray" in told.output


def test_a_missing_extra_is_named() -> None:
    (ray,) = DEPLOYMENTS
    absent = Kind(
        name=ray.name,
        config=ray.config,
        target=ray.target,
        words=ray.words,
        extra=ray.extra,
        needs=("no_ray",),
    )
    with pytest.raises(ConfigError, match=r"pip install 'nearfar\[ray\]'"):
        absent.resolve()
    assert ray.resolve().__name__ == "RayCluster"


def asked(shares: dict[str, float], target: int = 2) -> float:
    context = SimpleNamespace(aggregated_metrics={BUSY: shares} if shares else {}, target_num_replicas=target)
    return ByBusyness(busy=0.7)(context)[0]


def test_there_are_as_many_replicas_as_keep_each_as_busy_as_was_said() -> None:
    assert asked({"a": 0.7, "b": 0.7}) == pytest.approx(2.0)
    assert asked({"a": 1.0, "b": 1.0}) == pytest.approx(2.857, abs=1e-3)
    assert asked({"a": 0.4, "b": 0.2}) == 1.0
    assert asked({"a": 0.0, "b": 0.0}) == 1.0
    assert asked({}) == 2, "nobody has reported, nothing changes"


class Clock:
    now_us = 0

    def __call__(self) -> int:
        return self.now_us


def test_busy_is_the_share_of_its_models_time_that_was_used_since_the_last_look() -> None:
    class Metrics(WorkerMetrics):
        used_s = 0.0

        def value(self, name: str, **labels: str) -> float:
            assert name == "nearfar_worker_service_seconds_sum"
            return self.used_s if labels == {"model": "big"} else 0.0

    metrics, clock = Metrics(), Clock()
    busyness = Busyness(metrics, instances={"big": 3, "small": 1}, clock_us=clock)
    clock.now_us, metrics.used_s = 1_000_000, 2.0
    assert busyness.share() == 0.5
    assert busyness.share() == 0.5, "no time has passed"
    clock.now_us, metrics.used_s = 2_000_000, 12.0
    assert busyness.share() == 1.0, "a run that began before the look"
    clock.now_us = 3_000_000
    assert busyness.share() == 0.0


def test_the_counts_of_all_replicas_stand_on_one_page_prometheus_reads() -> None:
    pages = {}
    for name, count in (("host-1", 3), ("host-2", 4)):
        metrics = WorkerMetrics()
        metrics.describe(name="worker", store_id='a "quoted" one')
        metrics.frames.labels("answered").inc(count)
        pages[name] = metrics.text().decode()
    families = {family.name: family for family in text_string_to_metric_families(together(pages))}
    answered = {
        sample.labels["replica"]: sample.value
        for sample in families["nearfar_worker_frames"].samples
        if sample.labels["outcome"] == "answered"
    }
    assert answered == {"host-1": 3.0, "host-2": 4.0}
    assert together({}) == ""
    assert together(pages).count("# HELP nearfar_worker_frames_total") == 1
    assert {s.labels["store_id"] for s in families["nearfar_worker_info"].samples} == {'a "quoted" one'}


def test_a_store_that_is_not_there_is_said_before_any_ray_is_started(path: Path) -> None:
    """Nobody listens at port 9 of this machine."""
    config = worker(path, "store.url='postgresql+psycopg://someone:secret@127.0.0.1:9/records'")
    with pytest.raises(Fatal, match=r"127\.0\.0\.1:9.*nothing was deployed") as caught:
        RayCluster(config, worker=path, overrides=()).join()
    assert "secret" not in str(caught.value)
    assert "ray" not in sys.modules
