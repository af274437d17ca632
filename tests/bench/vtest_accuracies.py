"""Makes the accuracies `simulate` needs, once per model: YOLOX over vtest.avi, near, far at every rung, reference.

    python -m tests.bench.vtest_accuracies [--within 55]

Near is YOLOX@224 on raw frames, far YOLOX@512 on what the codec left of them, the reference YOLOX@640 on raw
frames; persons with a score of at least .35, matched at IoU .5, best first. Durations beyond five medians are the
machine's doing and left out. Runs in parts: what was done is kept in a cache folder outside the repository, and a
later call goes on from there.
"""

import argparse
import hashlib
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from pipelines.detectors.base import CancelToken, Detector
from pipelines.result import Detections

SHARED = Path(__file__).parents[2].parent / "shared"
CLIP = SHARED / "data/video/vtest.avi"
MODEL = SHARED / "data/models/yolox_nano_dyn.onnx"
NEAR_PX, FAR_PX, REFERENCE_PX = 224, 512, 640
SMALL_NEAR_PX = 160
RUNGS = (
    (80, 1.0),
    (50, 1.0),
    (20, 1.0),
    (50, 0.75),
    (20, 0.75),
    (50, 0.5),
    (20, 0.5),
    (35, 0.375),
)
"""(JPEG quality, scale relative to the far input)."""
PERSON = 0
MIN_SCORE = 0.35
IOU = 0.5
Boxes = NDArray[np.float32]


def cache_file() -> Path:
    """Where the accuracies of this model and these rungs are; its name says what they are made of."""
    root = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "nearfar-bench"
    made_of = hashlib.sha256(MODEL.read_bytes() + CLIP.read_bytes()[:65536] + repr(RUNGS).encode())
    return root / f"vtest-{made_of.hexdigest()[:12]}.json"


def counts(found: Boxes, reference: Boxes) -> tuple[int, int]:
    """(true, false) positives: each box, best first, takes the free reference box it overlaps most."""
    free = np.ones(len(reference), bool)
    true = 0
    for box in found:
        if not free.any():
            break
        width = np.minimum(box[2], reference[:, 2]) - np.maximum(box[0], reference[:, 0])
        height = np.minimum(box[3], reference[:, 3]) - np.maximum(box[1], reference[:, 1])
        both = np.maximum(width, 0) * np.maximum(height, 0)
        area = (box[2] - box[0]) * (box[3] - box[1])
        areas = (reference[:, 2] - reference[:, 0]) * (reference[:, 3] - reference[:, 1])
        overlap = np.where(free, both / (area + areas - both), 0.0)
        best = int(overlap.argmax())
        if overlap[best] >= IOU:
            free[best] = False
            true += 1
    return true, len(found) - true


class Bench:
    """The four detectors, loaded once."""

    def __init__(self) -> None:
        from pipelines.detectors.yolox import Yolox  # noqa: PLC0415 - needs onnxruntime

        def load(side_px: int) -> Detector:
            made: Detector = Yolox(model=MODEL, input_size=(side_px, side_px), min_score=MIN_SCORE, threads=1)
            return made

        self._near, self._small = load(NEAR_PX), load(SMALL_NEAR_PX)
        self._far, self._reference = load(FAR_PX), load(REFERENCE_PX)

    def frame(self, picture: NDArray[np.uint8]) -> dict[str, Any]:
        """Counts, bytes and durations of one frame."""
        reference = persons(self._reference.detect(picture, CancelToken()))
        boxes = reference.boxes
        out: dict[str, Any] = {"reference": len(boxes)}
        for name, detector in (("near", self._near), ("small_near", self._small)):
            start = time.perf_counter()
            seen = persons(detector.detect(picture, CancelToken()))
            out[name] = [*counts(seen.boxes, boxes), int((time.perf_counter() - start) * 1e6)]
            if name == "near":
                out["confidence"] = round(float(min(seen.scores, default=0.0)), 4)
        out["rungs"] = [self._rung(picture, boxes, quality, scale) for quality, scale in RUNGS]
        return out

    def _rung(self, picture: NDArray[np.uint8], reference: Boxes, quality: int, scale: float) -> list[int]:
        """[true, false, run µs, bytes, encode µs]"""
        height, width = picture.shape[:2]
        factor = min(1.0, scale * FAR_PX / max(width, height))
        size = (round(width * factor), round(height * factor))
        start = time.perf_counter()
        small = cv2.resize(picture, size, interpolation=cv2.INTER_AREA) if factor < 1 else picture
        done, payload = cv2.imencode(".jpg", small, [cv2.IMWRITE_JPEG_QUALITY, quality])
        encode_us = int((time.perf_counter() - start) * 1e6)
        if not done:
            raise RuntimeError(f"JPEG at quality {quality} failed")
        start = time.perf_counter()
        decoded = np.asarray(cv2.imdecode(payload, cv2.IMREAD_COLOR), np.uint8)
        seen = persons(self._far.detect(decoded, CancelToken()))
        run_us = int((time.perf_counter() - start) * 1e6)
        boxes = seen.scaled(width / size[0], height / size[1]).boxes
        return [*counts(boxes, reference), run_us, len(payload), encode_us]


def persons(seen: Detections) -> Detections:
    """Persons only, best first."""
    order = np.argsort(-seen.scores, kind="stable")
    order = order[seen.class_ids[order] == PERSON]
    return Detections(seen.boxes[order], seen.scores[order], seen.class_ids[order], seen.labels)


def _pictures(first: int) -> Iterator[NDArray[np.uint8]]:
    clip = cv2.VideoCapture(str(CLIP))
    clip.set(cv2.CAP_PROP_POS_FRAMES, first)
    while True:
        there, picture = clip.read()
        if not there:
            clip.release()
            return
        yield np.asarray(picture, np.uint8)


def undisturbed(samples_us: Sequence[int]) -> list[int]:
    """Without those during which the machine did something else."""
    most_us = 5 * sorted(samples_us)[len(samples_us) // 2]
    return [us for us in samples_us if us <= most_us]


def as_file(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The rows of all frames in the shape `nearfar simulate --accuracies` reads."""

    def seen(columns: list[list[int]]) -> dict[str, Any]:
        true, false, run_us = zip(*(c[:3] for c in columns), strict=True)
        return {"true": true, "false": false, "run_us": undisturbed(run_us)}

    rungs = []
    for i, (quality, scale) in enumerate(RUNGS):
        columns = [row["rungs"][i] for row in rows]
        rungs.append(
            {
                **seen(columns),
                "codec": "jpeg",
                "quality": quality,
                "scale": scale,
                "size_bytes": [c[3] for c in columns],
                "encode_us": undisturbed([c[4] for c in columns]),
            }
        )
    return {
        "format": "nearfar accuracies 1",
        "made_from": f"{CLIP.name}: {MODEL.name} near@{NEAR_PX}, far@{FAR_PX}, reference@{REFERENCE_PX}",
        "reference": [row["reference"] for row in rows],
        "near": seen([row["near"] for row in rows]),
        "small_near": seen([row["small_near"] for row in rows]),
        "confidence": [row["confidence"] for row in rows],
        "rungs": rungs,
    }


def prepare(within_s: float) -> Path | None:
    """The finished file, or None when there was not enough time: call again."""
    target = cache_file()
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_suffix(".part")
    rows = [json.loads(line) for line in part.read_text().splitlines()] if part.exists() else []
    until_s = time.monotonic() + within_s
    bench = Bench()
    with part.open("a") as kept:
        for picture in _pictures(len(rows)):
            rows.append(bench.frame(picture))
            kept.write(json.dumps(rows[-1]) + "\n")
            kept.flush()
            if time.monotonic() > until_s:
                return None
    target.write_text(json.dumps(as_file(rows), separators=(",", ":")) + "\n")
    part.unlink()
    return target


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.vtest_accuracies", description=__doc__)
    parser.add_argument("--within", type=float, default=55.0, help="seconds this call may take")
    made = prepare(parser.parse_args().within)
    print(made or "not finished: call again")
    sys.exit(0 if made else 1)


if __name__ == "__main__":
    main()
