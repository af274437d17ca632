"""The worker file: its defaults, what is refused and with which words."""

from dataclasses import replace
from typing import Any

import psutil
import pytest

from cloud.config import WorkerConfig, load_worker
from cloud.engine.of_worker import engines_of
from cloud.engine.recipe import Recipe
from cloud.models.spec import model_specs
from cloud.models.thread_plan import thread_plan
from pipelines.errors import ConfigError
from tests.support.models import write_yunet
from tests.support.refused import refused

WORKER = """\
version: 1
listen: {zmq: {address: "127.0.0.1:0"}}
models:
  rehearsal: {detector: {kind: synthetic}}
"""


@pytest.fixture
def worker(tmp_path):
    def load(*overrides, text=WORKER) -> WorkerConfig:
        (tmp_path / "worker.yaml").write_text(text)
        return load_worker(tmp_path / "worker.yaml", overrides)

    return load


def test_a_worker_has_the_documented_defaults(worker, tmp_path):
    config = worker()
    assert config.default_model == "rehearsal"
    assert config.store.url == f"sqlite:///{tmp_path}/.nearfar/worker/records.db"
    assert (config.queue.max_frames, config.queue.max_bytes) == (64, 64 << 20)
    assert (config.per_agent.frames_in_flight, config.per_agent.bytes_in_flight) == (8, 4 << 20)
    assert (config.limits.message, config.limits.pixels) == (8 << 20, 12_000_000)
    assert (config.store.commit_every, config.drain) == (20_000, 10_000_000)
    assert config.listen.http is None
    assert config.models["rehearsal"].warm_up == 3


def test_the_store_follows_state_dir_and_its_file_is_relative_to_the_yaml(worker, tmp_path):
    assert worker("state_dir=s", "store.commit_every=5ms").store.url == f"sqlite:///{tmp_path}/s/records.db"
    assert worker("store.url=sqlite:///r.db").store.url == f"sqlite:///{tmp_path}/r.db"
    assert worker("store.url=sqlite:////abs/r.db").store.url == "sqlite:////abs/r.db"
    kept = worker("store.keep=30d", "store.payloads={path: pictures, max_bytes: 50GiB}").store
    assert kept.keep == 30 * 86_400_000_000
    assert kept.payloads is not None
    assert (kept.payloads.path, kept.payloads.max_bytes, kept.payloads.keep) == (
        tmp_path / "pictures",
        50 << 30,
        "hard",
    )
    assert worker("store.url=postgresql+psycopg://u@h/db").store.url == "postgresql+psycopg://u@h/db"


@pytest.mark.parametrize("address", ["0.0.0.0:7440", "10.0.0.5:7440", "[::]:7440", "gw.example:7440"])
def test_a_listener_off_loopback_needs_the_word_insecure(worker, address):
    assert "asks for no credentials" in refused(worker, f"listen.zmq.address='{address}'")
    assert worker(f"listen.zmq.address='{address}'", "listen.zmq.insecure=true").listen.zmq.insecure


def test_an_ipv6_host_without_brackets_is_ambiguous_and_refused(worker):
    assert "goes in brackets" in refused(worker, "listen.zmq.address='::1:7440'")


@pytest.mark.parametrize("address", ["127.0.0.1:0", "localhost:7440", "[::1]:7440", "127.1.2.3:1"])
def test_a_listener_on_loopback_needs_no_word(worker, address):
    assert worker(f"listen.zmq.address='{address}'").listen.zmq.address == address


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("listen.zmq.address=7440", "must be text"),
        ("listen.zmq.address='localhost'", "HOST:PORT"),
        ("listen.zmq.curve={key_file: k}", "credentials for listeners are not built yet"),
        ("listen.grpc={address: '0.0.0.0:1'}", "asks for no credentials"),
        ("listen.grpc={address: '127.0.0.1:0', tls: {}}", "credentials for listeners are not built yet"),
        ("listen={}", "agents need a way in"),
        ("listen.http={address: '0.0.0.0:9464'}", "asks for no credentials"),
        ("models={}", "at least 1"),
        ("models.rehearsal.providers=[cuda]", "other providers than the CPU are not built yet"),
        ("models.rehearsal.sha256=" + "0" * 63 + "a", "has no file to compare"),
        ("models.rehearsal.sha256=xyz", "64 lower-case hex digits"),
        ("default_model=other", "no such model; there is rehearsal"),
        ("models.second={detector: {kind: synthetic}}", "name one of rehearsal, second"),
        ("batch.max=0", "greater than or equal to 1"),
        ("batch.wait=5ms", "a frame that runs alone waits for nobody"),
        ("models.rehearsal.batch={wait: 5ms}", "a frame that runs alone waits for nobody"),
        ("batch={max: 4, wait: 2s}", "1s is the most"),
        ("bulk={when: idle}", "bulk lane are not built yet"),
        ("store.keep=30m", "records are kept for 1h at least"),
        ("store.payloads={max_bytes: 1GiB}", "store.payloads.path"),
        ("store.payloads={path: x, keep: some}", "hard"),
        ("store.url=postgres://u:secret@h/db", "write postgresql+psycopg://USER@HOST/DATABASE"),
        ("store.url='sqlite://'", "must be sqlite:///FILE"),
        ("store.url='sqlite:///:memory:'", "must be sqlite:///FILE"),
        ("limits.message=8388608", "a size needs its unit"),
    ],
)
def test_what_a_worker_does_not_do_is_refused_with_a_sentence(worker, override, words):
    assert words in refused(worker, override)


def test_the_fingerprint_of_a_model_reaches_its_detector(worker, tmp_path):
    (tmp_path / "m.onnx").write_bytes(b"")
    detector = "models.rehearsal.detector={kind: centerface, model: m.onnx, input: 320x224}"
    digest = "a" * 64
    model = worker(detector, f"models.rehearsal.sha256={digest}", "models.rehearsal.threads=2").models[
        "rehearsal"
    ]
    assert model.detector.kind == "centerface"
    assert (model.detector.sha256, model.detector.threads) == (digest, 2)


def test_a_worker_without_a_file_is_told_what_to_write_and_that_works(worker):
    with pytest.raises(ConfigError, match="needs a file that names its model") as caught:
        load_worker(None)
    recipe = next(line for line in str(caught.value).splitlines() if "synthetic" in line)
    assert worker(text=recipe[recipe.index("{") :]).default_model == "rehearsal"


def test_models_run_in_the_worker_s_own_process_unless_the_file_says_otherwise(worker):
    assert worker().processes == 0
    config = worker("processes=2", "engine={hang_after: 500ms, start_within: 10s}")
    assert (config.processes, config.engine.hang_after, config.engine.start_within) == (
        2,
        500_000,
        10_000_000,
    )
    assert worker("processes=1").engine.hang_after is None


def test_what_is_said_of_engines_without_any_is_refused(worker):
    assert "processes: 1" in refused(worker, "engine.hang_after=1s")


@pytest.mark.parametrize("wrong", ["processes=-1", "processes=65", "processes=two", "engine.hang_after=1ms"])
def test_counts_and_times_of_engines_have_their_bounds(worker, wrong):
    refused(worker, wrong, *(["processes=1"] if "engine" in wrong else []))


def test_every_setting_of_an_engine_reaches_it(worker, monkeypatch):
    seen: dict[str, Any] = {}
    monkeypatch.setattr(
        "cloud.engine.of_worker.Engines", lambda recipes, **more: seen.update(more, recipes=recipes)
    )
    text = WORKER.replace("{kind: synthetic}}", "{kind: synthetic, delay: 3ms}, instances: 3, warm_up: 0}")
    config = worker(
        "processes=4",
        "threads=8",
        "engine={hang_after: 1s, start_within: 5s}",
        "limits.pixels=10000000",
        text=text,
    )
    engines_of(config, thread_plan(config))
    (recipe,) = seen["recipes"]
    assert (recipe.model, recipe.instances, recipe.warm_up) == ("rehearsal", 3, False)
    assert recipe.settings["delay"] == "3ms"
    assert (seen["processes"], seen["hang_after_us"], seen["start_within_us"]) == (4, 1_000_000, 5_000_000)
    assert (seen["threads"], seen["memory_bytes"]) == (2, 30_000_000)
    engines_of(config, replace(thread_plan(config), budget=3))
    assert seen["threads"] == 1, "an engine has one at least"


def test_engines_share_the_threads_of_the_worker(worker, tmp_path):
    (tmp_path / "m.onnx").touch()
    text = WORKER.replace("{kind: synthetic}", "{kind: yolox, model: m.onnx, input: 64x64}")
    assert thread_plan(worker("threads=8", "processes=2", "decode.threads=0", text=text)).threads == {
        "rehearsal": 4
    }
    crowded = thread_plan(worker("threads=4", "processes=2", "models.rehearsal.threads=4", text=text))
    assert crowded.threads == {"rehearsal": 4}
    assert "rehearsal: 2 × 4" in crowded.warning


def test_the_threads_of_a_run_reach_the_model_in_its_engine(worker, tmp_path):
    (tmp_path / "m.onnx").touch()
    text = WORKER.replace("{kind: synthetic}", "{kind: yolox, model: m.onnx, input: 64x64, threads: 4}")
    detector = worker(text=text).models["rehearsal"].detector
    assert Recipe.of("m", detector, instances=1, threads=3, warm_up=True).settings["threads"] == 3


def test_a_worker_without_engines_makes_none(worker):
    assert engines_of(worker(), thread_plan(worker())) is None


def test_threads_are_shared_out_unless_the_file_says_how_many(worker, tmp_path):
    (tmp_path / "m.onnx").write_bytes(b"")
    onnx = "models.rehearsal.detector={kind: yunet, model: m.onnx, input: 320x224}"
    assert thread_plan(worker(onnx, "threads=8")).threads == {"rehearsal": 7}
    assert thread_plan(worker(onnx, "threads=8", "decode.threads=3")).threads == {"rehearsal": 5}
    assert thread_plan(worker(onnx, "threads=8", "models.rehearsal.threads=2")).threads == {"rehearsal": 2}
    assert thread_plan(worker(onnx, "threads=8", "models.rehearsal.detector.threads=2")).threads == {
        "rehearsal": 2
    }
    assert "say it once" in refused(
        worker, onnx, "models.rehearsal.detector.threads=2", "models.rehearsal.threads=3"
    )
    assert (
        "3 threads want a core"
        in thread_plan(worker(onnx, "threads=2", "models.rehearsal.threads=3")).warning
    )


def test_a_model_batches_as_it_says_or_as_the_worker_says(worker):
    def rule(*overrides):
        config = worker(*overrides)
        (spec,) = model_specs(config, thread_plan(config))
        return spec.batch.max, spec.batch.wait_us

    assert rule() == (1, 0)
    assert rule("batch={max: 4, wait: 3ms}") == (4, 3000)
    assert rule("batch.max=4", "models.rehearsal.batch={max: 8, wait: 5ms}") == (8, 5000)
    assert rule("batch.max=4", "models.rehearsal.batch.max=1") == (1, 0)


def test_the_share_of_threads_reaches_the_detector(worker, tmp_path):
    write_yunet(tmp_path / "m.onnx")
    config = worker("models.rehearsal.detector={kind: yunet, model: m.onnx, input: 64x64}", "threads=4")
    (spec,) = model_specs(config, thread_plan(config))
    first = spec.build()  # loading the engine starts threads of its own
    before = psutil.Process().num_threads()
    second = spec.build()
    assert psutil.Process().num_threads() == before + 2
    assert first.sha256 == second.sha256
