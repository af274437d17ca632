"""The motion gate: a frame passes when enough of the picture moves, and one now and then when nothing does.

Judged on a gray copy at most 320 px wide; time is an argument. When nearly everything changes at once (light, a
moved camera), that frame passes and the scene is learned anew from it; so it is at the first frame, at a new
size and after a pause, when nothing is known of what happened meanwhile: 5 s, or three periods of a slower camera.
Whatever passed, the next frame passes at the latest `at_least_every` after it.
"""

from typing import Any, Literal, Self

import cv2
import numpy as np

from pipelines.frame import Picture
from pipelines.gates.background import Background, Gray, MeanBackground, MixtureBackground
from pipelines.gates.base import Verdict, Why
from pipelines.pictures import contrast, stretched
from pipelines.windows import SampleWindow

WIDTH_PX = 320
WHOLE_SCENE = 0.6  # a larger share that changes between two frames is no object
PAUSE_US = 5_000_000
PAUSE_PERIODS = 3
GAPS = 9  # of which the middle one is the camera's period
MEMORY_US = 30_000_000  # what stands still becomes scene after about a tenth of it
# The n-th frame after learning anew weighs 0.5 / n: the scene's noise is known after some seconds. At most 2 %,
# or what walks through the first frames would be scene itself.
_WARM_UP_RATE, _FASTEST_RATE = 0.5, 0.02
_MOST_RATE = 0.5  # at 1 the mixture would forget everything before it looks
_SPECKS = np.ones((3, 3), np.uint8)


class MotionGate:
    """`min_area` is a share of the picture, 0..1; `at_most_every_us` None: passing frames are not bounded."""

    def __init__(
        self,
        *,
        min_area: float,
        at_least_every_us: int,
        at_most_every_us: int | None = None,
        method: Literal["mog2", "difference"] = "mog2",
    ) -> None:
        self._min_area = min_area
        self._at_least_every_us = at_least_every_us
        self._at_most_every_us = at_most_every_us
        self._scene: Background = MixtureBackground() if method == "mog2" else MeanBackground()
        self._size: tuple[int, ...] | None = None
        self._contrast: tuple[int, int] | None = None
        self._gaps = SampleWindow(GAPS)
        self._seen_us: int | None = None
        self._looked_us = 0
        self._passed_us = 0
        self._next_us = 0  # the rate bound's own timetable, so that a frame's jitter does not add up
        self._learned = 0  # frames since the scene was learned anew

    @classmethod
    def from_config(cls, config: Any) -> Self:
        return cls(
            min_area=config.min_area,
            at_least_every_us=config.at_least_every,
            at_most_every_us=config.at_most_every,
            method=config.method,
        )

    def judge(self, picture: Picture, now_us: int) -> Verdict:
        """As `Gate.judge`; a frame that comes too soon to pass is not looked at."""
        known = (*picture.shape, picture.dtype.itemsize) == self._size
        paused = self._paused(now_us)
        if self._at_most_every_us is not None and known and now_us < self._next_us:
            return Verdict(passes=False, why=Why.RATE)
        since_us, self._looked_us = now_us - self._looked_us, now_us
        if not known or paused:
            self._learn_anew(picture)
            return self._pass(Why.FIRST, now_us)
        moving = self._moving(picture, since_us)
        if moving > WHOLE_SCENE:
            self._learn_anew(picture)
            return self._pass(Why.SCENE, now_us)
        if moving >= self._min_area:
            return self._pass(Why.MOTION, now_us)
        if now_us - self._passed_us >= self._at_least_every_us:
            return self._pass(Why.KEYFRAME, now_us)
        return Verdict(passes=False, why=Why.STILL)

    def _paused(self, now_us: int) -> bool:
        """Whether the camera was silent for longer than its own pace explains."""
        seen_us, self._seen_us = self._seen_us, now_us
        if seen_us is None:
            return True
        gap_us, period_us = now_us - seen_us, self._gaps.quantile(0.5, now_us) or 0.0
        self._gaps.add(gap_us, now_us)
        return gap_us > max(PAUSE_US, PAUSE_PERIODS * period_us)

    def _pass(self, why: Why, now_us: int) -> Verdict:
        self._passed_us = now_us
        every_us = self._at_most_every_us or 0
        late_us = now_us - self._next_us
        self._next_us = (self._next_us if late_us < every_us else now_us) + every_us
        return Verdict(passes=True, why=why)

    def _learn_anew(self, picture: Picture) -> None:
        self._size = (*picture.shape, picture.dtype.itemsize)
        self._contrast = None
        self._learned = 0
        self._scene.learn_anew(self._small_gray(picture))

    def _moving(self, picture: Picture, since_us: int) -> float:
        self._learned += 1
        warm_up = min(_FASTEST_RATE, _WARM_UP_RATE / self._learned)
        rate = min(_MOST_RATE, max(since_us / MEMORY_US, warm_up))
        mask = self._scene.moving(self._small_gray(picture), rate=rate)
        mask = cv2.morphologyEx(mask, cv2.MORPH_OPEN, _SPECKS).astype(np.uint8, copy=False)
        return cv2.countNonZero(mask) / mask.size

    def _small_gray(self, picture: Picture) -> Gray:
        height, width = picture.shape[:2]
        target = (min(width, WIDTH_PX), max(1, round(height * min(1.0, WIDTH_PX / width))))
        if width > 2 * WIDTH_PX:
            # Single pixels first: averaging all of a 1080p picture costs 3 ms, this 0.5 ms.
            half = (2 * target[0], 2 * target[1])
            picture = cv2.resize(picture, half, interpolation=cv2.INTER_NEAREST)  # type: ignore[assignment]
        small = cv2.resize(picture, target, interpolation=cv2.INTER_AREA)
        if small.ndim == 3:
            small = cv2.cvtColor(small, cv2.COLOR_BGR2GRAY)
        if small.dtype == np.uint8:
            return small.astype(np.uint8, copy=False)
        return self._eight_bits(small.astype(np.uint16, copy=False))

    def _eight_bits(self, small: Picture) -> Gray:
        """With the contrast of the scene when it was learned, widened by half to each side: a contrast of each
        picture's own would itself look like motion."""
        if self._contrast is None:
            low, high = contrast(small)
            spare = max(8, (high - low) // 2)
            self._contrast = low - spare, high + spare
        black, white = self._contrast
        return stretched(small, black=black, white=white)
