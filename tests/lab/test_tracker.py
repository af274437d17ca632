"""The tracker on a real clip: what is carried forward is worth more than what near says, and than boxes left behind."""

from pathlib import Path

import cv2
import numpy as np
import pytest

from pipelines.detectors.yolox import Yolox
from pipelines.matching import counts
from pipelines.result import Detections
from pipelines.trackers.base import Base
from pipelines.trackers.flow import FlowTracker

SHARED = Path(__file__).parents[3] / "shared" / "data"
AGE = 5


def load(side_px: int) -> Yolox:
    return Yolox(model=SHARED / "models/yolox_nano_dyn.onnx", input_size=(side_px, side_px))


def persons(found: Detections) -> Detections:
    keep = found.class_ids == 0
    return Detections(found.boxes[keep], found.scores[keep], found.class_ids[keep], found.labels)


@pytest.mark.lab
def test_on_a_real_clip_a_far_answer_carried_five_frames_beats_a_near_one():
    """YOLOX at 512 px carried forward, YOLOX at 224 px on the frame itself, boxes left where they were; against YOLOX
    at 640 px. Measured over the whole clip: .90, .74 and .32 of F1."""
    far, near, reference = load(512), load(224), load(640)
    clip = cv2.VideoCapture(str(SHARED / "video/vtest.avi"))
    pictures = [np.asarray(clip.read()[1], np.uint8) for _ in range(120)]
    clip.release()
    sums = {"tracked": [0, 0, 0], "near": [0, 0, 0], "left": [0, 0, 0]}
    for first in range(0, 114, AGE + 1):
        shown = pictures[first : first + AGE + 1]
        tracker = FlowTracker(max_age=AGE)
        for seq, picture in enumerate(shown, start=1):
            tracker.see(seq, picture, captured_us=seq, oldest=1)
        said = persons(far.detect(shown[0]))
        tracker.rebase(Base(seq=1, detections=said, worth=1.0))
        carried = tracker.carry(AGE + 1)
        assert carried is not None
        there = persons(reference.detect(shown[-1]))
        seen = {"tracked": carried.detections, "near": persons(near.detect(shown[-1])), "left": said}
        for name, found in seen.items():
            true, false = counts(found, there)
            sums[name] = [a + b for a, b in zip(sums[name], (true, false, len(there)), strict=True)]
    f1 = {name: 2 * true / (true + false + wanted) for name, (true, false, wanted) in sums.items()}
    assert f1["tracked"] > f1["near"] + 0.05
    assert f1["tracked"] > f1["left"] + 0.3
    assert f1["tracked"] > 0.8
