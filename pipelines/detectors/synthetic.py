"""A detector without a model: takes a known time and gives boxes that follow from the picture alone.

For tests, rehearsals and measurements of everything around a detector. Two runs on equal pixels agree.
"""

import hashlib
import json
import threading
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from pipelines.detectors.base import Cancelled, CancelToken
from pipelines.errors import Fatal, Rejected
from pipelines.frame import Picture
from pipelines.result import Detections

MOST_PICTURES = 64
"""Of one run."""
_SAMPLE_STEP_PX = 8  # the mean of every 8th pixel is as good here and 64 times cheaper


class SyntheticDetector:
    """Waits `delay_us` without using the CPU, then gives `boxes` boxes with classes in turn of `labels`.

    `per_frame_us`: what each further picture of one run adds; None: as much as the first. `fail_every` n: every nth
    run raises Fatal, as a broken engine would; None: never.
    """

    def __init__(
        self,
        *,
        delay_us: int = 10_000,
        labels: Sequence[str] = ("thing",),
        boxes: int = 1,
        input_size: tuple[int, int] = (320, 240),
        fail_every: int | None = None,
        per_frame_us: int | None = None,
    ) -> None:
        self._delay_us = delay_us
        self._per_frame_us = delay_us if per_frame_us is None else per_frame_us
        self._labels = tuple(labels)
        self._boxes = boxes
        self._input_size = input_size
        self._fail_every = fail_every
        self._runs = 0
        settings: list[object] = [delay_us, self._labels, boxes, list(input_size), fail_every]
        if per_frame_us is not None:
            settings.append(per_frame_us)
        self._sha256 = hashlib.sha256(json.dumps(["synthetic", *settings]).encode()).hexdigest()

    @classmethod
    def from_config(cls, config: Any) -> Self:
        return cls(
            delay_us=config.delay,
            labels=config.labels,
            boxes=config.boxes,
            input_size=config.input,
            fail_every=config.fail_every,
            per_frame_us=config.per_frame,
        )

    @property
    def name(self) -> str:
        return f"synthetic@{self._input_size[0]}x{self._input_size[1]}"

    @property
    def labels(self) -> tuple[str, ...]:
        return self._labels

    @property
    def input_size(self) -> tuple[int, int]:
        return self._input_size

    @property
    def sha256(self) -> str:
        return self._sha256

    def detect(self, picture: Picture, cancel: CancelToken | None = None) -> Detections:
        """Boxes in pixels of `picture`, best score first. Raises as `Detector.detect` says."""
        _must_be_picture(picture)
        self._work(self._delay_us, cancel)
        return self._boxes_of(picture)

    @property
    def max_batch(self) -> int:
        return MOST_PICTURES

    def detect_batch(self, pictures: Sequence[Picture]) -> list[Detections]:
        """What `detect` gives for each of `pictures`, in one run."""
        for picture in pictures:
            _must_be_picture(picture)
        self._work(self._delay_us + self._per_frame_us * (len(pictures) - 1))
        return [self._boxes_of(picture) for picture in pictures]

    def _work(self, delay_us: int, cancel: CancelToken | None = None) -> None:
        self._runs += 1
        ended = threading.Event()
        if cancel is not None:
            cancel.on_cancel(ended.set)
        if ended.wait(delay_us / 1e6):
            raise Cancelled("cancelled")
        if self._fail_every and self._runs % self._fail_every == 0:
            raise Fatal(f"run {self._runs} failed, as `fail_every: {self._fail_every}` wants")

    def _boxes_of(self, picture: Picture) -> Detections:
        height, width = picture.shape[:2]
        mean = float(picture[::_SAMPLE_STEP_PX, ::_SAMPLE_STEP_PX].mean()) / 255
        index = np.arange(self._boxes)
        left = (mean + 0.37 * index) % 0.75
        top = (mean + 0.61 * index) % 0.75
        corners = np.stack([left, top, left + 0.25, top + 0.25], axis=1) * [width, height, width, height]
        return Detections(
            corners.astype(np.float32),
            (0.9 / (1 + 0.1 * index)).astype(np.float32),
            (index % max(1, len(self._labels))).astype(np.uint16),
            self._labels,
        )


def _must_be_picture(picture: Picture) -> None:
    if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] != 3 or not picture.size:
        raise Rejected(f"a detector takes uint8 [height, width, 3], not {picture.dtype} {picture.shape}")
