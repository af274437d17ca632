"""What a run says of itself: enough to read its figures, and nothing that is secret."""

import json

import pytest

from edge.config.pipeline import load_pipeline
from edge.telemetry.facts import cpu_name, facts_of, machine
from protos.wire.session import ModelInfo, StreamInfo

PIPELINE = """\
version: 1
agent: gw
deadline: 80ms
streams:
  door: {source: {kind: camera, url: "rtsp://admin:hunter2@10.0.0.9/stream"}}
near: {detector: {kind: synthetic, delay: 5ms}}
links: {lte: {url: "zmq://10.0.0.5:7440"}}
"""


def facts(tmp_path, **changes):
    path = tmp_path / "pipeline.yaml"
    path.write_text(PIPELINE)
    given = {
        "streams": [StreamInfo(name="door", width_px=0, height_px=0)],
        "near": ("synthetic@640x360", "ab" * 32),
        "far": None,
        "started_unix_us": 1_700_000_000_500_000,
    }
    return facts_of(load_pipeline(path), **(given | changes))


def test_the_settings_that_decide_are_there_with_their_units(tmp_path):
    said = facts(tmp_path)
    assert (said["fall_back_above_ms"], said["return_below_ms"]) == (80.0, 40.0)
    assert (said["policy"], said["hedge"], said["started_unix_ms"]) == (
        "deadline",
        "late",
        1_700_000_000_500.0,
    )
    assert said["streams"] == {"door": {"source": "camera", "width": 0, "height": 0}}
    assert said["ladder"] == [{"codec": "jpeg", "quality": 50, "level": None, "scale": 1.0}]
    assert said["links"] == {"lte": "zmq://10.0.0.5:7440"}
    assert said["near"] == {"name": "synthetic@640x360", "sha256": "ab" * 32}


def test_the_far_model_is_what_the_worker_said_or_nothing(tmp_path):
    assert facts(tmp_path)["far"] is None
    far = ModelInfo(
        name="yolox-512", sha256="cd" * 32, labels=("person",), input_width_px=512, input_height_px=512
    )
    assert facts(tmp_path, far=far)["far"] == {"name": "yolox-512", "sha256": "cd" * 32}


def test_no_password_of_a_camera_is_told(tmp_path):
    text = json.dumps(facts(tmp_path))
    assert "hunter2" not in text
    assert "admin" not in text


def test_the_machine_has_a_name_a_system_and_cores():
    said = machine()
    assert said["host"]
    assert isinstance(said["cores"], int)
    assert "Linux" in str(said["system"])
    assert "numpy" in json.dumps(said["packages"])


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("processor\t: 0\nmodel\t\t: 1\nmodel name\t: AMD EPYC\nstepping\t: 1\n", "AMD EPYC"),
        (
            "processor\t: 0\nCPU part\t: 0xd08\n\nHardware\t: BCM2835\nModel\t\t: Raspberry Pi 4 Model B Rev 1.4\n",
            "Raspberry Pi 4 Model B Rev 1.4",
        ),
        ("processor\t: 0\nmodel\t\t: 1\n", ""),
        ("", ""),
    ],
    ids=["x86", "raspberry pi", "a bare number", "nothing"],
)
def test_a_processor_is_told_by_its_name_and_never_by_a_number(tmp_path, text, name):
    (tmp_path / "cpuinfo").write_text(text)
    assert cpu_name(tmp_path / "cpuinfo") == name
    assert cpu_name(tmp_path / "gone") == ""
