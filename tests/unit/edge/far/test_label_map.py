"""Two models that call one thing by two names: the recipe says so once, and what cannot work is said in words."""

import logging
from pathlib import Path

import pytest

from edge.config.pipeline import PipelineConfig, load_pipeline
from edge.flow.answer_desk import AnswerDesk
from edge.identity import Identity
from edge.near.names import NearNames
from pipelines.detectors.kinds import YoloxConfig
from pipelines.errors import ConfigError
from pipelines.labels import LabelSpace
from protos.wire.session import ModelInfo

PIPELINE = """\
version: 1
labels: [person, vehicle]
{label_map}
streams: {{door: {{source: {{kind: synthetic, size: 64x48}}}}}}
near: {{detector: {{kind: synthetic, labels: [people]}}}}
"""


def load(tmp_path, label_map, *overrides) -> PipelineConfig:
    file = tmp_path / "pipeline.yaml"
    file.write_text(PIPELINE.format(label_map=label_map))
    return load_pipeline(file, overrides)


def test_renames_are_read_as_written(tmp_path):
    config = load(tmp_path, "label_map: {people: person, traffic light: vehicle}")
    assert config.label_map == {"people": "person", "traffic light": "vehicle"}
    assert load(tmp_path, "").label_map == {}


@pytest.mark.parametrize(
    ("label_map", "words"),
    [
        ("label_map: {people: persn}", r"label_map.people: persn is none of `labels`; did you mean person\?"),
        ("label_map: {people: giraffe}", r"label_map.people: giraffe is none of `labels`"),
        ("label_map: {vehicle: person}", r"label_map.vehicle: vehicle is itself one of `labels`"),
        ("label_map: {people: 3}", r"label_map.people: must be text"),
        ("label_map: [people]", r"label_map: must be a mapping"),
    ],
)
def test_a_rename_that_leads_nowhere_is_refused_at_its_line(tmp_path, label_map, words):
    with pytest.raises(ConfigError, match=rf"pipeline.yaml:3:\d+: {words}"):
        load(tmp_path, label_map)


def test_renames_without_labels_to_lead_to_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="leads into `labels`, which is left out"):
        load(tmp_path, "label_map: {people: person}", "labels=null")


def test_classes_of_a_detector_are_told_apart():
    with pytest.raises(
        ValueError, match=r"car: given more than once; a pipeline's label_map makes two classes one"
    ):
        YoloxConfig(kind="yolox", model=Path("m.onnx"), input=(64, 64), labels=("car", "bus", "car"))


def desk(space, near_labels):
    return AnswerDesk(
        identity=Identity(agent="gw", run=bytes(16)),
        labels=space,
        near_labels=near_labels,
        far_model="",
        near=NearNames(full="near"),
        sinks=[],
        frame_log=None,
        clock_us=lambda: 0,
    )


def model(*labels):
    return ModelInfo(name="big", sha256="", labels=labels, input_width_px=64, input_height_px=64)


def test_what_a_far_model_never_reports_is_said_once_however_often_the_link_comes_back(caplog):
    answers = desk(LabelSpace(("person", "vehicle"), {"people": "person"}), ("people", "vehicle"))
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            answers.use_model(model("people", "cat"))
    assert [r.message for r in caplog.records] == [
        "far model big never reports vehicle: its model has no such label"
    ]
    with caplog.at_level(logging.WARNING):
        answers.use_model(model("person", "cat"))  # the worker came back with another model
    assert len(caplog.records) == 2


@pytest.mark.parametrize("labels", [(), ("people", "vehicle")])
def test_a_far_model_that_fits_or_names_no_labels_is_not_complained_about(caplog, labels):
    answers = desk(LabelSpace(("person", "vehicle"), {"people": "person"}), ("person", "vehicle"))
    answers.use_model(model(*labels))
    assert not caplog.records
