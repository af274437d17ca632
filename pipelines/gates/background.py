"""What a scene looks like when nothing moves, learned from small gray pictures: two ways behind one interface."""

from typing import Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

Gray = NDArray[np.uint8]
"""uint8 [height, width]."""


class Background(Protocol):
    def learn_anew(self, gray: Gray) -> None:
        """Forget everything; the scene is `gray`."""
        ...

    def moving(self, gray: Gray, *, rate: float) -> Gray:
        """Pixels that differ from the scene as 255, the others 0; then the scene moves towards `gray` by `rate`
        (0..1)."""
        ...


class MixtureBackground:
    """A mixture of Gaussians per pixel (Zivkovic 2004, OpenCV's MOG2): leaves, water and flicker become scene."""

    def __init__(self) -> None:
        self._model = cv2.createBackgroundSubtractorMOG2(detectShadows=False)

    def learn_anew(self, gray: Gray) -> None:
        self._model.apply(gray, learningRate=1)

    def moving(self, gray: Gray, *, rate: float) -> Gray:
        return self._model.apply(gray, learningRate=rate).astype(np.uint8, copy=False)


class MeanBackground:
    """A running mean per pixel; what differs from it by more than `threshold` gray steps of 255 moves."""

    def __init__(self, *, threshold: int = 18) -> None:
        self._threshold = threshold
        self._mean: NDArray[np.float32] | None = None

    def learn_anew(self, gray: Gray) -> None:
        self._mean = gray.astype(np.float32)

    def moving(self, gray: Gray, *, rate: float) -> Gray:
        if self._mean is None:
            self.learn_anew(gray)
        mean = self._mean
        assert mean is not None  # noqa: S101 - learned just now
        difference = cv2.absdiff(gray, cv2.convertScaleAbs(mean))
        cv2.accumulateWeighted(gray, mean, rate)
        _, mask = cv2.threshold(difference, self._threshold, 255, cv2.THRESH_BINARY)
        return mask.astype(np.uint8, copy=False)
