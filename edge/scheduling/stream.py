"""One stream as the scheduler knows it: payload costs, how much its next frame matters, and how far it lags."""

from collections import deque
from collections.abc import Sequence

from edge.scheduling.ladder_cost import LadderCost
from edge.scheduling.priority_rule import first_match
from edge.scheduling.rung import Rung
from edge.scheduling.settings import StreamSettings
from pipelines.result import Detections, Priority

RULE_SPAN_US = 2_000_000
"""So long an answer speaks for the frames after it."""
GOOD_KEPT = 64


class Stream:
    def __init__(self, settings: StreamSettings, ladder: Sequence[Rung]) -> None:
        self._settings = settings
        self.cost = LadderCost(ladder, settings.pixels)
        self._ruled: tuple[Priority, int] | None = None
        self._newest_us = 0
        self._behind_us: int | None = None  # since when frames wait for an answer
        self._good: deque[int] = deque(maxlen=GOOD_KEPT)  # frames with a near or far answer
        self._newest_good = 0

    def priority(self, now_us: int) -> Priority:
        """By the rules on the previous answer, else the stream's own."""
        if self._ruled is not None and now_us - self._ruled[1] <= RULE_SPAN_US:
            return self._ruled[0]
        return self._settings.priority

    def saw(self, detections: Detections, now_us: int, size_px: tuple[int, int] | None = None) -> None:
        """An answer was given; the first rule it matches ranks the next frames. `size_px` of its picture (width,
        height): None = as configured."""
        if not self._settings.rules:
            return
        matched = first_match(self._settings.rules, detections, size_px or self._settings.size_px)
        self._ruled = None if matched is None else (matched, now_us)

    def priority_of(self, detections: Detections, size_px: tuple[int, int]) -> Priority:
        """How much a frame matters by its own answer: what is kept and sent first goes by it."""
        return first_match(self._settings.rules, detections, size_px) or self._settings.priority

    def offered(self, captured_us: int) -> None:
        self._newest_us = max(captured_us, self._newest_us)
        if self._behind_us is None:
            self._behind_us = captured_us

    def answered(self, seq: int, captured_us: int, *, good: bool) -> None:
        if self._behind_us is not None:
            self._behind_us = None if captured_us >= self._newest_us else max(captured_us, self._behind_us)
        if good:
            self.corrected(seq)

    def corrected(self, seq: int) -> None:
        """Near or far said something of a frame, in time or not: from now on it can be carried forward."""
        self._good.append(seq)
        self._newest_good = max(seq, self._newest_good)

    def behind(self, seq: int) -> int | None:
        """How many frames before `seq` the last real answer of this stream is; None without one."""
        if 0 < self._newest_good < seq:
            return seq - self._newest_good
        return min((seq - good for good in self._good if good < seq), default=None)

    @property
    def lag_us(self) -> int:
        """For how long frames have come without the newest answer catching up; 0 between frames in time."""
        behind_us = self._behind_us  # read once: whoever asks may be another thread
        return 0 if behind_us is None else max(0, self._newest_us - behind_us)
