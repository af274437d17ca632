"""What reading a detector's outputs costs beside running the model: YOLOX at 320x320 on one core.

On the outputs of real pictures, at the score people use and at one so low that hundreds of boxes are suppressed.
Without a real model (`--model FILE`, else the one in ../shared) a made one of the same output size and about the
same work stands in; then the picture is painted, and the figures say so. Times are CPU time of the one thread
that does the work, so that other programs on the machine do not count.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path

import cv2
import numpy as np

from pipelines.detectors.boxes import Fitted, fit_picture
from pipelines.detectors.onnx import OnnxModel, Tensor
from pipelines.detectors.yolox import Yolox
from pipelines.frame import Picture
from tests.bench.report import Report, run, summary_ms
from tests.support.models import write_yolox

SHARED = Path(__file__).parents[3] / "shared/data"
REAL = SHARED / "models/yolox_nano_dyn.onnx"
SIZE = (320, 320)
SHARE_OF_INFERENCE = 25.0
USUAL, CROWDED = 0.35, 0.01
IOU = 0.45
MOST = 300


def pictures(*, real: bool) -> list[Picture]:
    """Real ones where they are, else a painted one with things of every size."""
    if real:
        files = (
            sorted((SHARED / "pictures").glob("*.jpg")) + sorted((SHARED / "val128/images").iterdir())[:29]
        )
        return [np.asarray(cv2.imread(str(file)), np.uint8) for file in files]
    dice = np.random.default_rng(1)
    painted = dice.integers(0, 20, (720, 1280, 3), np.uint8)
    for channel in (0, 1, 2) * 4:
        x, y, side = dice.integers(0, 1100), dice.integers(0, 560), dice.integers(60, 160)
        painted[y : y + side, x : x + side, channel] = 255
    return [painted]


def cpu_us() -> float:
    return time.thread_time_ns() / 1000


def read(detector: Yolox, output: Tensor, fitted: Fitted) -> tuple[int, float]:
    """What `detect` does after the run: how many boxes it gives, and its µs."""
    begun_us = cpu_us()
    found = detector.placed([output], fitted)
    return len(found), cpu_us() - begun_us


def measure(report: Report, arguments: argparse.Namespace) -> None:
    """The cost of reading outputs, as a share of the run that gave them."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    cv2.setNumThreads(1)
    rounds = 5 if arguments.quick else 25
    given = Path(arguments.model) if arguments.model else REAL if REAL.exists() else None
    with tempfile.TemporaryDirectory() as root:
        file = given or write_yolox(Path(root) / "made.onnx", classes=80, slow_layers=1, slow_channels=16)
        detector, crowd = (
            Yolox(model=file, input_size=SIZE, decoded=None if given else False, min_score=score)
            for score in (USUAL, CROWDED)
        )
        model = OnnxModel(file, threads=1)
    report.figures["model"] = file.name if given else "made for the purpose"
    fit, infer, usual, crowded = [], [], [], []
    boxes, crowds = [], []
    for picture in pictures(real=given is not None and SHARED.exists()):
        for _ in range(rounds):
            marks = [cpu_us()]
            fitted = fit_picture(picture, SIZE, "letterbox", shrink="linear")
            blob = np.asarray(cv2.dnn.blobFromImage(fitted.picture), np.float32)
            marks.append(cpu_us())
            (output,) = model.run({model.inputs[0]: blob}, model.outputs)
            marks.append(cpu_us())
            fit.append(marks[1] - marks[0])
            infer.append(marks[2] - marks[1])
            count, cost_us = read(detector, output, fitted)
            boxes.append(count)
            usual.append(cost_us)
            count, cost_us = read(crowd, output, fitted)
            crowds.append(count)
            crowded.append(cost_us)
    report.figures |= {"fit_ms": summary_ms(fit), "inference_ms": summary_ms(infer)}
    for name, costs, counts in ((USUAL, usual, boxes), (CROWDED, crowded, crowds)):
        report.figures[f"postprocess_at_{name}_ms"] = summary_ms(costs)
        report.figures[f"boxes_at_{name}"] = {"p50": sorted(counts)[len(counts) // 2], "max": max(counts)}
        for part in ("p50", "p95"):
            share = 100 * summary_ms(costs)[part] / summary_ms(infer)["p50"]
            report.at_most(
                f"postprocess at score {name}: {part} in % of inference", SHARE_OF_INFERENCE, share
            )


if __name__ == "__main__":
    words = "a YOLOX file of COCO's classes; default: the one in ../shared, else a made one"
    run("postprocess", measure, values={"model": words})
