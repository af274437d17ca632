"""Everybody sees what they would see in production, and it is counted against the best far result."""

import numpy as np
import pytest

from edge.config.pipeline import NearConfig, PipelineConfig, SmallerConfig
from nearfar.calibrate.clips import every_nth
from nearfar.calibrate.common_labels import CommonLabels
from nearfar.calibrate.local_far import LocalFar, local_far
from nearfar.calibrate.run import calibrate
from nearfar.calibrate.trial import Trial
from pipelines.codecs.base import PictureLimits
from pipelines.codecs.kinds import RungConfig
from pipelines.detectors.base import CancelToken
from pipelines.errors import ConfigError
from pipelines.frame import Picture
from pipelines.result import Detections
from tests.support.calibrated import rung, write_clip

LIMITS = PictureLimits(pixels=1 << 20, decoded_bytes=1 << 22)


class Seer:
    """Sees one thing, over the whole picture if it is sharp: a stand-in whose boxes follow from the size it is shown."""

    name, labels, input_size, sha256 = "seer@64x64", ("thing",), (64, 64), "0" * 64

    def __init__(self, *, least_px: int = 0) -> None:
        self._least_px = least_px
        self.shown: list[tuple[int, ...]] = []

    def detect(self, picture: Picture, cancel: CancelToken | None = None) -> Detections:
        del cancel
        self.shown.append(picture.shape)
        height, width = picture.shape[:2]
        share = 1.0 if width >= self._least_px else 0.25
        box = np.array([[0, 0, width * share, height]], np.float32)
        return Detections(box, np.array([0.8], np.float32), np.zeros(1, np.uint16), self.labels)


def trial(
    *, far: Seer, ladder: list[RungConfig], near: Seer | None = None, limits: PictureLimits = LIMITS
) -> Trial:
    return Trial(
        far=LocalFar(far, model="far", limits=limits),
        ladder=ladder,
        near=near,
        labels=CommonLabels(None, {}, near=None if near is None else near.labels, far=far.labels),
    )


def test_far_sees_what_the_rung_left_and_its_boxes_come_back_in_pixels_of_the_picture():
    far, near = Seer(), Seer()
    row = trial(far=far, ladder=[rung(scale=0.5)], near=near).row(np.zeros((96, 128, 3), np.uint8))
    assert far.shown == [(96, 128, 3), (24, 32, 3)]
    assert near.shown == [(96, 128, 3)]
    assert row.reference == 1
    assert (row.rungs[0].true, row.rungs[0].false) == (1, 0)
    assert row.rungs[0].size_bytes > 100
    assert row.confidence == pytest.approx(0.8)


def test_what_a_rung_loses_is_counted():
    row = trial(far=Seer(least_px=64), ladder=[rung(), rung(scale=0.5)]).row(np.zeros((96, 128, 3), np.uint8))
    assert [(sight.true, sight.false) for sight in row.rungs] == [(1, 0), (0, 1)]
    assert row.near is None
    assert row.confidence is None


def test_gray_pictures_of_16_bits_are_seen_by_everybody():
    ladder = [RungConfig(codec="zstd"), RungConfig(codec="png", scale=0.5)]
    row = trial(far=Seer(), near=Seer(), ladder=ladder).row(np.full((96, 128), 30_000, np.uint16))
    assert [(sight.true, sight.false) for sight in row.rungs] == [(1, 0), (1, 0)]


def test_a_rung_that_cannot_carry_the_clip_is_named():
    with pytest.raises(ConfigError, match=r"jpeg q50 ×1 cannot carry the pictures of this clip"):
        trial(far=Seer(), ladder=[rung()]).row(np.zeros((96, 128), np.uint16))


def test_a_payload_the_worker_would_refuse_is_named():
    tight = PictureLimits(pixels=64 * 48 - 1, decoded_bytes=1 << 22)
    with pytest.raises(ConfigError, match=r"exceed the limit of 3071 pixels"):
        trial(far=Seer(), ladder=[rung()], limits=tight).row(np.zeros((96, 128, 3), np.uint8))


def recipe(**near: object) -> PipelineConfig:
    return PipelineConfig.model_validate(
        {
            "version": 1,
            "streams": {"a": {"source": {"kind": "synthetic"}}},
            "near": {"detector": {"kind": "synthetic", "delay": "0ms", **near}},
            "links": {"lte": {"url": "zmq://127.0.0.1:7440"}},
        },
        context={"directory": "."},
    )


def worker(path, **detector: object):
    inside = "".join(
        f", {key}: {value}" for key, value in {"kind": "synthetic", "delay": "0ms", **detector}.items()
    )
    path.write_text(
        f"version: 1\nlisten: {{zmq: {{address: '127.0.0.1:0'}}}}\nmodels:\n  faces: {{detector: {{{inside[2:]}}}}}\n"
    )
    return path


def test_the_model_the_pipeline_asks_for_must_be_one_the_worker_serves(tmp_path):
    file = worker(tmp_path / "worker.yaml")
    assert local_far(file, model="").name == "faces (synthetic@320x240)"
    with pytest.raises(ConfigError) as refused:
        local_far(file, model="people")
    assert "allowed: faces" in str(refused.value)


def test_a_missing_model_file_is_named(tmp_path):
    file = worker(tmp_path / "worker.yaml")
    detector = "kind: yolox, model: gone.onnx, input: 64x64"
    file.write_text(file.read_text().replace("kind: synthetic, delay: 0ms", detector))
    with pytest.raises(ConfigError, match=r"no such file: .*gone\.onnx"):
        local_far(file, model="")


def test_near_that_is_no_worse_than_far_is_said(tmp_path):
    far = local_far(worker(tmp_path / "worker.yaml", input="320x240"), model="")
    clips = every_nth([write_clip(tmp_path / "clip.avi", frames=4)], every=1)
    outcome = calibrate(recipe(), far=far, clips=clips)
    assert outcome.found.near is not None
    assert outcome.found.near.accuracy == 1.0
    assert any(note.startswith("near runs far's own model at 320x240") for note in outcome.found.notes)
    assert any("no frame is worth sending" in note for note in outcome.found.notes)


def test_a_smaller_input_of_near_is_measured_beside_it(tmp_path):
    far = local_far(worker(tmp_path / "worker.yaml", boxes=2), model="")
    clips = every_nth([write_clip(tmp_path / "clip.avi", frames=4)], every=1)
    told: list[int] = []
    outcome = calibrate(recipe(boxes=2), far=far, clips=clips, near_inputs=[(160, 120)], told=told.append)
    assert [small.name for small in outcome.found.smaller] == ["synthetic@160x120"]
    assert told == [0, 1, 2, 3, 4]
    assert outcome.as_file().small_near is not None
    assert outcome.as_file().made_from.endswith("near synthetic@320x240, far faces (synthetic@320x240)")


def test_the_smaller_input_of_the_recipe_comes_before_those_asked_for(tmp_path):
    far = local_far(worker(tmp_path / "worker.yaml"), model="")
    clips = every_nth([write_clip(tmp_path / "clip.avi", frames=1)], every=1)
    config = recipe()
    assert config.near is not None
    config = config.model_copy(
        update={"near": NearConfig(detector=config.near.detector, smaller=SmallerConfig(input=(128, 96)))}
    )
    outcome = calibrate(config, far=far, clips=clips, near_inputs=[(160, 120), (128, 96)])
    assert [small.name for small in outcome.found.smaller] == ["synthetic@128x96", "synthetic@160x120"]
