"""Both files: what they default to, what is refused, and in which words."""

from pathlib import Path

import pytest
import yaml

from cloud.config import WorkerConfig, load_worker
from edge.config import PipelineConfig, load_pipeline
from edge.config_warnings import warnings
from pipelines.errors import ConfigError
from pipelines.result import Priority

RECIPES = Path(__file__).parents[2] / "pipelines" / "recipes"
PIPELINE = """\
version: 1
streams:
  door: {source: {kind: synthetic}}
near: {detector: {kind: synthetic}}
links:
  lte: {url: "zmq://10.0.0.5:7440"}
"""
WORKER = """\
version: 1
listen: {zmq: {address: "127.0.0.1:0"}}
models:
  rehearsal: {detector: {kind: synthetic}}
"""


@pytest.fixture
def pipeline(tmp_path):
    def load(*overrides, text=PIPELINE) -> PipelineConfig:
        (tmp_path / "pipeline.yaml").write_text(text)
        return load_pipeline(tmp_path / "pipeline.yaml", overrides)

    return load


@pytest.fixture
def worker(tmp_path):
    def load(*overrides, text=WORKER) -> WorkerConfig:
        (tmp_path / "worker.yaml").write_text(text)
        return load_worker(tmp_path / "worker.yaml", overrides)

    return load


def refused(load, *overrides, **more):
    with pytest.raises(ConfigError) as caught:
        load(*overrides, **more)
    return str(caught.value)


def test_a_pipeline_has_the_documented_defaults(pipeline, tmp_path):
    config = pipeline()
    assert config.deadline == 100_000
    assert (config.rtt_budget.fall_back_above, config.rtt_budget.return_below) == (100_000, 50_000)
    assert config.state_dir == tmp_path / ".nearfar" / "agent"
    assert config.agent is None
    assert config.streams["door"].priority is Priority.NORMAL
    assert (config.scheduler.policy, config.scheduler.hedge.start) == ("deadline", "late")
    assert config.scheduler.hedge.margin == 4_000
    assert config.scheduler.ladder[0].quality == 50
    assert (config.outbox.max_bytes, config.outbox.max_age) == (1 << 30, 72 * 3600 * 1_000_000)
    assert config.near is not None
    assert config.near.accuracy == 0.5
    assert config.sinks == ()


def test_the_round_trip_budget_follows_the_deadline(pipeline):
    budget = pipeline("deadline=60ms").rtt_budget
    assert (budget.fall_back_above, budget.return_below) == (60_000, 30_000)


def test_half_a_budget_is_completed(pipeline):
    budget = pipeline("deadline=60ms", "rtt_budget.return_below=20ms").rtt_budget
    assert (budget.fall_back_above, budget.return_below) == (60_000, 20_000)
    budget = pipeline("rtt_budget.fall_back_above=80ms").rtt_budget
    assert (budget.fall_back_above, budget.return_below) == (80_000, 40_000)


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("rtt_budget.return_below=100ms", "must be below fall_back_above"),
        ("links.lte.url=grpcs://h:1", "credentials for links are not built yet"),
        ("links.lte.url=tcp://h:1", "must be zmq://HOST:PORT or grpc://HOST:PORT"),
        ("links.lte.url=zmq://h:0", "port of 1 to 65535"),
        ("links.lte.tls={ca: x}", "not built yet"),
        ("links.lte.metered=1", "metered"),
        ("links.lte.data_budget={}", "needs per_hour, per_day or both"),
        ("links.lte.data_budget={per_hour: 0MB}", "must be above 0; to send nothing, leave the link out"),
        ("links.lte.data_budget={per_hour: 200}", "a size needs its unit"),
        ("links.lte.data_budget={per_minute: 2MB}", "per_minute"),
        (f"links={{{', '.join(f'l{n}: {{url: zmq://h:{n}}}' for n in range(1, 6))}}}", "at most 4"),
        ("scheduler.duplicate={}", "needs a second link to send a frame over"),
        ("scheduler.duplicate={priorities: []}", "at least 1"),
        ("scheduler.duplicate={priorities: [urgent]}", "allowed: low, normal, high"),
        ("scheduler.duplicate={share: 0%}", "greater than 0"),
        ("scheduler.ladder=[]", "needs 1 to 16 rungs"),
        (f"scheduler.ladder=[{', '.join(['{quality: 50}'] * 17)}]", "needs 1 to 16 rungs"),
        ("scheduler.hedge.margin=2ms", "at least 3ms"),
        ("scheduler.hedge.margin=60ms", "more than half of the deadline"),
        ("scheduler.min_p=25", "write 25% or 0.25"),
        ("streams={}", "at least 1"),
        ("streams.door.gate={kind: motion, at_most_every: 3s}", "must be below at_least_every"),
        ("streams.door.gate={kind: moton}", "motion"),
        ("streams.door.gate={kind: motion, min_area: 0}", "greater than 0"),
        ("scheduler.ladder=[{codec: zstd, quality: 50}]", "zstd is lossless and has no quality"),
        ("scheduler.ladder=[{codec: png, level: 10}]", "png takes 0 to 9"),
        ("scheduler.ladder=[{codec: zstd, level: 0}]", "zstd takes 1 to 19"),
        ("scheduler.ladder=[{level: 3}]", "jpeg has no level; set quality"),
        ("scheduler.ladder=[{quality: null}]", "jpeg needs a quality"),
        ("scheduler.ladder=[{codec: png, level: null}]", "png takes 0 to 9"),
        ("streams.door.source={kind: rtsp}", "is kind: camera, with url: rtsp://"),
        ("uplink.rules=[{send: [payload]}]", "the result always goes up: write [result, payload]"),
        ("uplink.rules=[{send: [result]}, {every: 9, send: [result]}]", "rule 1 before it matches every"),
        ("uplink.rules=[{when: {}, send: [result]}]", "leave `when` out"),
        ("uplink.rules=[{when: {answered_by: [far]}}]", "near"),
        ("uplink.rules=[{when: {answered_by: [missed], label: x}}]", "a missed frame has no boxes"),
        ("uplink.archive={codec: png, quality: 9}", "png is lossless and has no quality"),
        ("uplink.archive={codec: zstd, level: 0}", "zstd takes 1 to 19"),
        ("uplink.archive={level: 3}", "jpeg has no level"),
        ("uplink.archive={quality: null}", "jpeg needs a quality"),
        ("outbox.keep={before: 1s}", "there is no such rule"),
        ("outbox.keep={after: 31s}", "must be at most 30s"),
        ("uplink.rules=[]", "must have at least 1"),
        ("uplink.rules=[{every: 0, send: [result]}]", "greater than or equal to 1"),
        ("sinks=[{kind: socket, path: %s}]" % ("x" * 120), "a Unix socket's path may have 107"),
        ("sinks=[{kind: socket, path: x, mode: 0660}]", 'must be in quotes, such as "0660"'),
        ("sinks=[{kind: socket, path: x, mode: '0999'}]", "three octal digits"),
        ("sinks=[{kind: socket, path: x, mode: '0460'}]", "must let the owner read and write"),
        ("labels=[a, a]", "a label is given twice"),
        ("agent=../up", "letters, digits, - and _"),
        ("deadline=1ms", "at least 10ms"),
        ("deadline=100", "write 100ms"),
    ],
)
def test_what_does_not_work_is_refused_with_a_sentence(pipeline, override, words):
    assert words in refused(pipeline, override)


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (("near=null", "scheduler.policy=near_only"), "near_only needs a `near` detector"),
        (("near=null", "scheduler.policy=confidence"), "confidence needs a `near` detector"),
        (("links={}", "scheduler.policy=far_only"), "far_only needs a link"),
        (("links={}", "near=null"), "deadline needs a `near` detector, a link, or both"),
        (("links={}", "near=null", "scheduler.policy=threshold"), "threshold needs"),
    ],
)
def test_a_policy_needs_someone_who_can_answer(pipeline, overrides, words):
    assert words in refused(pipeline, *overrides)


def test_a_wrong_entry_of_a_list_is_one_problem_not_two(pipeline):
    with pytest.raises(ConfigError) as caught:
        pipeline("uplink.rules=[{send: [payload]}]")
    assert len(caught.value.problems) == 1


def test_seventeen_streams_are_one_too_many(pipeline):
    streams = ", ".join(f"s{i}: {{source: {{kind: synthetic}}}}" for i in range(17))
    assert "at most 16" in refused(pipeline, f"streams={{{streams}}}")


def test_threads_are_said_once_and_reach_the_detector(pipeline, tmp_path):
    (tmp_path / "m.onnx").write_bytes(b"")
    detector = "near.detector={kind: centerface, model: m.onnx, input: 192x160"
    for overrides in ((detector + "}", "near.threads=3"), (detector + ", threads: 3}",)):
        near = pipeline(*overrides).near
        assert (near.threads, near.detector.threads) == (3, 3)
    assert "say it once" in refused(pipeline, detector + ", threads: 2}", "near.threads=3")


def test_files_that_are_not_there_are_named(pipeline):
    said = refused(
        pipeline,
        "streams.door.source={kind: file, path: clip.mp4}",
        "near.detector={kind: centerface, model: m.onnx, input: 192x160}",
    )
    assert "streams.door.source.path: no such file" in said
    assert "near.detector.model: no such file" in said
    assert "streams.door.source.path: no such folder" in refused(
        pipeline, "streams.door.source={kind: images, path: pictures}"
    )


def test_what_is_allowed_and_probably_not_meant_is_warned_of(pipeline):
    assert warnings(pipeline()) == []
    assert "missed" in warnings(pipeline("near=null"))[0]
    assert "no link" in warnings(pipeline("links={}"))[0]
    twice = pipeline("links={lte: {url: 'zmq://h:1'}, cable: {url: 'zmq://h:1'}}")
    assert "links lte and cable lead to the same address zmq://h:1" in warnings(twice)[0]
    assert "no frame is worth offloading" in warnings(pipeline("near.accuracy=1.0"))[0]
    assert "never" in warnings(pipeline("scheduler.hedge.start='never'"))[0]
    assert "a picture above 500 kB" in warnings(pipeline("scheduler.ladder=[{codec: zstd}]"))[0]
    assert warnings(pipeline("scheduler.ladder=[{codec: zstd}]", "scheduler.byte_price=0")) == []
    asks_after_near = "scheduler.policy=confidence"
    assert "no frame is worth offloading" in warnings(pipeline("near.accuracy=1.0", asks_after_near))[0]


def test_a_ladder_is_judged_by_its_best_rung_and_warned_of_only_if_no_rung_is_small(pipeline):
    lossy_first = "scheduler.ladder=[{quality: 10, accuracy: 0.3}, {codec: zstd, accuracy: 0.9}]"
    assert warnings(pipeline(lossy_first)) == []
    lossless = "scheduler.ladder=[{codec: png, accuracy: 0.8}, {codec: zstd, accuracy: 1.0}]"
    assert "zstd is lossless" in warnings(pipeline(lossless))[0]
    poor = "scheduler.ladder=[{quality: 10, accuracy: 0.3}, {quality: 20, accuracy: 0.4}]"
    assert "no frame is worth offloading" in warnings(pipeline(poor))[0]


def test_a_dumped_pipeline_reads_back_as_the_same_pipeline(pipeline):
    config = pipeline("deadline=75ms", "sinks=[{kind: jsonl, path: a.jsonl}]", "scheduler.min_p=30%")
    text = yaml.safe_dump(config.model_dump(mode="json"))
    assert "deadline: 75ms" in text
    assert pipeline(text=text) == config


def test_a_dumped_lossless_pipeline_with_a_gate_reads_back_as_the_same_pipeline(pipeline):
    config = pipeline(
        "scheduler.ladder=[{codec: zstd, level: 3}]",
        "streams.door.gate={kind: motion, min_area: 1%, at_most_every: 100ms}",
    )
    assert config.scheduler.ladder[0].quality is None
    assert pipeline(text=yaml.safe_dump(config.model_dump(mode="json"))) == config


def test_a_configuration_cannot_be_changed_after_it_was_checked(pipeline):
    with pytest.raises(ValueError, match="frozen"):
        pipeline().deadline = 1


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
        ("batch.max=4", "batching is not built yet"),
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


def test_the_packaged_recipes_are_right_and_fit_together():
    agent = load_pipeline(RECIPES / "synthetic.yaml")
    served = load_worker(RECIPES / "worker-synthetic.yaml")
    assert agent.far.model in served.models
    assert served.listen.zmq is not None
    assert agent.links["local"].url == f"zmq://{served.listen.zmq.address}"
    assert warnings(agent) == []
