"""What the far model sees of every frame of the clip at every rung, computed once: the scripted worker answers from it.

    python -m tests.bench.scenarios.clip_cache [--within 55]

A payload is recognised by its digest: picture and JPEG are made by the agent's own source and codec, so the same frame
at the same rung is the same bytes. What is not recognised is refused by the worker, never guessed. Runs in parts, in a
cache folder outside the repository.
"""

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from edge.capture.file import FileSource
from edge.scheduling.rung import Rung
from nearfar.calibrate.rows import undisturbed
from pipelines.codecs.base import PictureLimits
from pipelines.codecs.jpeg import JpegCodec
from pipelines.detectors.base import CancelToken, Detector
from pipelines.frame import Picture
from pipelines.matching import Boxes
from pipelines.result import Detections
from tests.bench.scenarios.persons import counts, persons
from tests.bench.vtest_accuracies import (
    CLIP,
    FAR_PX,
    MIN_SCORE,
    MODEL,
    NEAR_PX,
    REFERENCE_PX,
    RUNGS,
    SMALL_NEAR_PX,
    cache_file,
)

FAR_INPUT = (FAR_PX, FAR_PX)
ALL_RUNGS = (*RUNGS, (80, 0.5))
"""(JPEG quality, scale relative to the far input)."""
LADDERS = {"sketch": ((50, 1.0), (80, 0.5), (20, 0.5)), "wide": RUNGS}
PERSON_LABELS = ("person",)
LIMITS = PictureLimits(pixels=1 << 24, decoded_bytes=1 << 26)


def digest_of(payload: bytes | memoryview) -> str:
    return hashlib.blake2b(payload, digest_size=12).hexdigest()


@dataclass(frozen=True, slots=True)
class Seen:
    """One frame at one rung: boxes in pixels of the payload, best first. `run_us`: the far model's own time."""

    frame: int
    rung: int
    boxes: Boxes
    scores: Boxes
    run_us: int


class ClipCache:
    """The finished cache."""

    def __init__(self, rows: Sequence[dict[str, Any]]) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    @classmethod
    def read(cls, path: Path) -> "ClipCache":
        with path.open() as file:
            return cls([json.loads(line) for line in file])

    @cached_property
    def by_digest(self) -> dict[str, Seen]:
        return {
            seen["digest"]: Seen(
                frame, rung, _boxes(seen["boxes"]), np.array(seen["scores"], np.float32), seen["run_us"]
            )
            for frame, row in enumerate(self._rows)
            for rung, seen in enumerate(row["rungs"])
        }

    @cached_property
    def references(self) -> list[Boxes]:
        """Boxes of the reference by frame of the clip, in source pixels."""
        return [_boxes(row["reference"]) for row in self._rows]

    @cached_property
    def payload_bytes(self) -> list[list[int]]:
        """[frame][rung]"""
        return [[seen["size_bytes"] for seen in row["rungs"]] for row in self._rows]

    def counted(self, frame: int, rung: int) -> tuple[int, int]:
        """(true, false) positives of the far model on this frame at this rung of `ALL_RUNGS`."""
        true, false = self._rows[frame]["rungs"][rung]["counts"]
        return true, false

    @cached_property
    def run_us(self) -> list[int]:
        """Of the far model, without what the machine did beside it."""
        return undisturbed([seen["run_us"] for row in self._rows for seen in row["rungs"]])

    @property
    def typical_us(self) -> int:
        """The far model's median run."""
        return sorted(self.run_us)[len(self.run_us) // 2]

    def f1(self, rung: tuple[int, float] | None) -> float:
        """Over the whole clip; None = near."""
        number = None if rung is None else ALL_RUNGS.index(rung)
        true = false = there = 0
        for row in self._rows:
            seen = row["near"] if number is None else row["rungs"][number]["counts"]
            true, false, there = true + seen[0], false + seen[1], there + len(row["reference"])
        return 2 * true / (true + false + there)

    def accuracies(self, rungs: Sequence[tuple[int, float]]) -> dict[str, Any]:
        """The shape `nearfar simulate --accuracies` reads, of `rungs` alone."""
        rows = self._rows

        def column(numbers: Sequence[Sequence[int]]) -> dict[str, Any]:
            true, false, run_us = zip(*numbers, strict=True)
            return {"true": true, "false": false, "run_us": undisturbed(run_us)}

        made = []
        for quality, scale in rungs:
            seen = [row["rungs"][ALL_RUNGS.index((quality, scale))] for row in rows]
            made.append(
                column([[*s["counts"], s["run_us"] + s["decode_us"]] for s in seen])
                | {
                    "codec": "jpeg",
                    "quality": quality,
                    "scale": scale,
                    "size_bytes": [s["size_bytes"] for s in seen],
                    "encode_us": undisturbed([s["encode_us"] for s in seen]),
                }
            )
        return {
            "format": "nearfar accuracies 1",
            "made_from": f"{CLIP.name}: {MODEL.name} near@{NEAR_PX}, far@{FAR_PX}, reference@{REFERENCE_PX}",
            "reference": [len(row["reference"]) for row in rows],
            "near": column([row["near"] for row in rows]),
            "small_near": column([row["small_near"] for row in rows]),
            "confidence": [row["confidence"] for row in rows],
            "rungs": made,
        }


class Maker:
    """The four detectors and the codec, loaded once."""

    def __init__(self) -> None:
        from pipelines.detectors.yolox import Yolox  # noqa: PLC0415 - needs onnxruntime

        def load(side_px: int) -> Detector:
            made: Detector = Yolox(model=MODEL, input_size=(side_px, side_px), min_score=MIN_SCORE, threads=1)
            return made

        self._near, self._small = load(NEAR_PX), load(SMALL_NEAR_PX)
        self._far, self._reference = load(FAR_PX), load(REFERENCE_PX)
        self._codec = JpegCodec()
        for detector in (self._near, self._small, self._far, self._reference):
            detector.detect(np.zeros((64, 64, 3), np.uint8), CancelToken())

    def row(self, picture: Picture) -> dict[str, Any]:
        reference, _ = self._run(self._reference, picture)
        near, near_us = self._run(self._near, picture)
        small, small_us = self._run(self._small, picture)
        return {
            "reference": _numbers(reference.boxes),
            "near": [*counts(near.boxes, reference.boxes), near_us],
            "small_near": [*counts(small.boxes, reference.boxes), small_us],
            "confidence": round(float(min(near.scores, default=0.0)), 4),
            "rungs": [self._rung(picture, reference.boxes, *rung) for rung in ALL_RUNGS],
        }

    def _rung(self, picture: Picture, reference: Boxes, quality: int, scale: float) -> dict[str, Any]:
        height, width = picture.shape[:2]
        size = Rung(codec="jpeg", quality=quality, scale=scale, accuracy=0.0).size_px(
            (width, height), FAR_INPUT
        )
        begun = time.perf_counter()
        payload, encoding = self._codec.encode(picture, quality=quality, size=size)
        encode_us = _since(begun)
        begun = time.perf_counter()
        decoded = self._codec.decode(payload, encoding, LIMITS)
        decode_us = _since(begun)
        seen, run_us = self._run(self._far, decoded)
        as_source = seen.scaled(width / size[0], height / size[1])
        return {
            "digest": digest_of(payload),
            "size_bytes": len(payload),
            "boxes": _numbers(seen.boxes),
            "scores": [round(float(score), 4) for score in seen.scores],
            "counts": counts(as_source.boxes, reference),
            "run_us": run_us,
            "encode_us": encode_us,
            "decode_us": decode_us,
        }

    @staticmethod
    def _run(detector: Detector, picture: Picture) -> tuple[Detections, int]:
        begun = time.perf_counter()
        seen = persons(detector.detect(picture, CancelToken()))
        return seen, _since(begun)


def path_of_cache() -> Path:
    """Its name says what it is made of."""
    made_of = hashlib.sha256(MODEL.read_bytes() + CLIP.read_bytes()[:65536] + repr(ALL_RUNGS).encode())
    return cache_file().with_name(f"scenarios-{made_of.hexdigest()[:12]}.jsonl")


def prepare(within_s: float) -> Path | None:
    """The finished file, or None when there was not enough time: call again."""
    target = path_of_cache()
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_suffix(".part")
    done = len(part.read_text().splitlines()) if part.exists() else 0
    until_s = time.monotonic() + within_s
    maker = Maker()
    with part.open("a") as kept:
        for picture in _pictures(done):
            kept.write(json.dumps(maker.row(picture), separators=(",", ":")) + "\n")
            kept.flush()
            if time.monotonic() > until_s:
                return None
    part.rename(target)
    return target


def _pictures(first: int) -> Iterator[Picture]:
    """As the agent's source gives them, from number `first` on."""
    source = FileSource(path=CLIP)
    source.open()
    number = 0
    while (picture := source.read()) is not None:
        if number >= first:
            yield picture
        number += 1
    source.close()


def _boxes(rows: list[list[float]]) -> Boxes:
    return np.array(rows, np.float32).reshape(-1, 4)


def _numbers(boxes: Boxes) -> list[list[float]]:
    return [[round(float(value), 2) for value in box] for box in boxes]


def _since(begun: float) -> int:
    return int((time.perf_counter() - begun) * 1e6)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.scenarios.clip_cache", description=__doc__)
    parser.add_argument("--within", type=float, default=55.0, help="seconds this call may take")
    made = prepare(parser.parse_args().within)
    print(made or "not finished: call again")
    sys.exit(0 if made else 1)


if __name__ == "__main__":
    main()
