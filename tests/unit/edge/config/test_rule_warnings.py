"""`check` says what a file allows and its writer did not mean: labels nobody shows, one address or path for two."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from nearfar.cli import main as command_line

COCO_MODEL = {"kind": "yolox", "model": "m.onnx", "input": "32x32"}


def pipeline(**changes: Any) -> dict[str, Any]:
    return {
        "version": 1,
        "streams": {"door": {"source": {"kind": "synthetic"}}},
        "near": {"detector": {"kind": "synthetic", "labels": ["person", "car"]}},
        "links": {"lte": {"url": "zmq://10.0.0.1:7440"}},
    } | changes


def asking_for(label: str) -> dict[str, Any]:
    rule = {"when": {"label": label}, "priority": "high"}
    return {"door": {"source": {"kind": "synthetic"}, "rules": [rule]}}


@pytest.fixture
def check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    def run(document: dict[str, Any], code: int = 0) -> str:
        (tmp_path / "m.onnx").touch()
        file = tmp_path / "p.yaml"
        file.write_text(yaml.safe_dump(document))
        assert command_line.run(["check", str(file)]) == code
        told = capsys.readouterr()
        return told.err if code else told.out

    return run


def test_a_label_that_near_never_shows_is_warned_of_with_the_one_that_was_meant(check: Any) -> None:
    out = check(pipeline(streams=asking_for("persn")))
    words = "streams.door.rules.0.when.label: persn is no label of synthetic, near never shows it"
    assert f"warning: {words}; did you mean person?" in out
    assert "no label of" not in check(pipeline(streams=asking_for("person")))


def test_without_a_link_no_answer_shows_it(check: Any) -> None:
    assert "no answer shows it" in check(pipeline(streams=asking_for("cat"), links={}))


def test_a_rule_of_the_uplink_is_looked_at_too(check: Any) -> None:
    rule = {"when": {"label": "bike"}, "send": ["result", "payload"]}
    assert "uplink.rules.0.when.label: bike is no label of" in check(pipeline(uplink={"rules": [rule]}))


@pytest.mark.parametrize(
    ("detector", "label"),
    [
        ({"kind": "centerface", "model": "m.onnx", "input": "32x32"}, "face"),
        ({"kind": "yunet", "model": "m.onnx", "input": "32x32"}, "face"),
        (COCO_MODEL, "zebra"),
        (COCO_MODEL | {"labels": ["crack"]}, "crack"),
    ],
)
def test_every_kind_of_detector_is_known_by_its_own_labels(
    check: Any, detector: dict[str, Any], label: str
) -> None:
    near = {"detector": detector}
    assert "is no label of" not in check(pipeline(near=near, streams=asking_for(label)))
    assert "is no label of" in check(pipeline(near=near, streams=asking_for("unicorn")))


@pytest.mark.parametrize("scheduler", [{}, {"duplicate": {}}])
def test_two_links_to_one_address_are_warned_of(check: Any, scheduler: dict[str, Any]) -> None:
    url = {"url": "zmq://10.0.0.1:7440"}
    out = check(pipeline(links={"lte": url, "cable": url}, scheduler=scheduler))
    assert "warning: links cable and lte lead to the same address zmq://10.0.0.1:7440" in out


def test_two_sinks_to_one_file_are_refused_however_its_path_is_written(check: Any, tmp_path: Path) -> None:
    sinks = [
        {"kind": "jsonl", "path": "a.jsonl"},
        {"kind": "jsonl", "path": f"{tmp_path}/../{tmp_path.name}/a.jsonl"},
    ]
    err = check(pipeline(sinks=sinks), code=2)
    assert "sinks.1.path: is also where sinks.0 writes" in err
    check(pipeline(sinks=[sinks[0], {"kind": "jsonl", "path": "b.jsonl"}]))
