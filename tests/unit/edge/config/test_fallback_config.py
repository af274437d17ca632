"""What a file says of falling back and of priorities: its defaults, and what is refused in which words."""

from pathlib import Path
from typing import Any

import pytest

from edge.config.pipeline import PipelineConfig, load_pipeline
from edge.config.warnings import warnings
from pipelines.detectors.kinds import SyntheticDetectorConfig, YoloxConfig, at_input
from pipelines.errors import ConfigError

PIPELINE = """\
version: 1
labels: [person, car]
streams: {{door: {{source: {{kind: synthetic}}, rules: {rules}}}}}
near:
  detector: {detector}
  smaller: {smaller}
links: {{lte: {{url: "zmq://10.0.0.5:7440"}}}}
tracker: {tracker}
scheduler: {scheduler}
"""
USUAL = {
    "rules": "[]",
    "detector": "{kind: synthetic, input: 320x240}",
    "smaller": "{input: 160x120}",
    "tracker": "{kind: flow}",
    "scheduler": "{}",
}


def load(tmp_path: Path, **parts: str) -> PipelineConfig:
    path = tmp_path / "p.yaml"
    path.write_text(PIPELINE.format(**(USUAL | parts)))
    return load_pipeline(path)


def test_what_is_left_out_has_defaults_that_need_no_tuning(tmp_path: Path) -> None:
    config = load(tmp_path)
    assert config.near is not None
    assert config.near.smaller is not None
    assert config.tracker is not None
    assert config.near.accuracy > config.near.smaller.accuracy > config.tracker.accuracy > 0
    assert config.tracker.max_age == 5
    weights = config.scheduler.weights
    assert (weights.high, weights.normal, weights.low) == (4, 2, 1)
    assert warnings(config) == []


@pytest.mark.parametrize(
    ("parts", "path", "words"),
    [
        ({"smaller": "{input: 320x240}"}, "near.smaller.input", "is not smaller than the detector's 320x240"),
        ({"smaller": "{input: 640x640}"}, "near.smaller.input", "is not smaller than the detector's 320x240"),
        (
            {"detector": "{kind: yolox, model: m.onnx, input: 224x224}", "smaller": "{input: 150x150}"},
            "near.smaller.input",
            "both sides must be multiples of 32 px",
        ),
        ({"smaller": "{}"}, "near.smaller.input", "is missing"),
        ({"tracker": "{kind: flow, max_age: 0}"}, "tracker.max_age", ""),
        ({"tracker": "{kind: klt}"}, "tracker.kind", "flow"),
        ({"scheduler": "{weights: {high: 1}}"}, "scheduler.weights.high", "must not weigh less than normal"),
        ({"scheduler": "{weights: {low: 0}}"}, "scheduler.weights.low", ""),
        ({"scheduler": "{load_price: -1}"}, "scheduler.load_price", ""),
        ({"rules": "[{when: {label: cat}, priority: high}]"}, "rules.0.when.label", "did you mean car?"),
        ({"rules": "[{when: {label: car}}]"}, "rules.0.priority", "is missing"),
        ({"rules": "[{when: {lable: car}, priority: high}]"}, "rules.0.when.lable", "label"),
        (
            {"rules": "[{when: {score_above: 0.8, score_below: 0.2}, priority: low}]"},
            "rules.0.when.score_below",
            "no box can meet both",
        ),
        (
            {"rules": "[{when: {region: [0.5, 0, 0.5, 1]}, priority: low}]"},
            "rules.0.when.region",
            "left must be below right",
        ),
        ({"rules": "[{when: {region: [0, 0, 640, 1]}, priority: low}]"}, "rules.0.when.region", "0 and 1"),
        ({"rules": "[{when: {count_at_least: 0}, priority: low}]"}, "rules.0.when.count_at_least", ""),
    ],
)
def test_what_cannot_be_meant_is_refused_where_it_stands(
    tmp_path: Path, parts: dict[str, str], path: str, words: str
) -> None:
    (tmp_path / "m.onnx").write_bytes(b"x")
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, **parts)
    said = str(caught.value)
    assert path in said
    assert words in said


def test_a_smaller_input_that_is_said_to_be_as_good_is_allowed_and_told(tmp_path: Path) -> None:
    said = warnings(load(tmp_path, smaller="{input: 160x120, accuracy: 0.5}"))
    assert any("near.smaller.accuracy is not below near.accuracy" in words for words in said)


def test_the_smaller_detector_is_the_same_one_but_for_its_input() -> None:
    full: dict[str, Any] = {"kind": "yolox", "model": "/m.onnx", "min_score": 0.2, "iou": 0.3, "threads": 2}
    config = YoloxConfig.model_validate({**full, "input": "224x224"})
    made = at_input(config, (160, 160))
    assert isinstance(made, YoloxConfig)
    assert made.model_dump() == {**config.model_dump(), "input": "160x160"}


def test_a_smaller_synthetic_detector_is_as_much_quicker_as_it_has_fewer_pixels() -> None:
    config = SyntheticDetectorConfig.model_validate(
        {"kind": "synthetic", "delay": "80ms", "input": "320x240"}
    )
    made = at_input(config, (160, 120))
    assert isinstance(made, SyntheticDetectorConfig)
    assert made.delay == 20_000
