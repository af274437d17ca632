"""The pipeline file, and the recipes of both: what it defaults to, what is refused, and in which words."""

from pathlib import Path

import pytest
import yaml

from cloud.config import load_worker
from edge.config.pipeline import PipelineConfig, load_pipeline
from edge.config.warnings import warnings
from pipelines.errors import ConfigError
from pipelines.result import Priority
from tests.support.refused import refused

RECIPES = Path(__file__).parents[4] / "pipelines" / "recipes"
PIPELINE = """\
version: 1
streams:
  door: {source: {kind: synthetic}}
near: {detector: {kind: synthetic}}
links:
  lte: {url: "zmq://10.0.0.5:7440"}
"""


@pytest.fixture
def pipeline(tmp_path):
    def load(*overrides, text=PIPELINE) -> PipelineConfig:
        (tmp_path / "pipeline.yaml").write_text(text)
        return load_pipeline(tmp_path / "pipeline.yaml", overrides)

    return load


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


def test_the_packaged_recipes_are_right_and_fit_together():
    agent = load_pipeline(RECIPES / "synthetic.yaml")
    served = load_worker(RECIPES / "worker-synthetic.yaml")
    assert agent.far.model in served.models
    assert served.listen.zmq is not None
    assert agent.links["local"].url == f"zmq://{served.listen.zmq.address}"
    assert warnings(agent) == []
