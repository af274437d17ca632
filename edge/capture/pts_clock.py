"""The age of a picture from its presentation time: arrival − pts against the least of the last seconds.

Sans-IO. A camera's times are believed only after they have kept pace with arrivals for five seconds, and no longer
than they keep doing so: some cameras count pictures and call it time.
"""

from pipelines.windows import MinWindow

WINDOW_US = 8_000_000
TRIAL_US = BLOCK_US = 5_000_000
TRIAL_PICTURES = 8
TOLERANCE_US = 15_000
"""Between the leasts of two halves of a trial, or of two blocks: 0.6 % and 0.3 %. A real clock is 0.02 % off at most;
what passes is wrong by less than 50 ms within the window."""


class PtsClock:
    """All times in µs, arrivals of one monotonic clock, pts of the camera's."""

    def __init__(self) -> None:
        self._last_pts_us: int | None = None
        self._least = MinWindow(WINDOW_US)
        self._trial: list[tuple[int, int]] = []
        self._block: tuple[int, int] | None = None
        self._block_before_us: int | None = None
        self._drifted = 0
        self._disproved = False
        self.trusted = False

    def age_us(self, *, arrived_us: int, pts_us: int | None) -> int | None:
        """How much older the picture is than the freshest of the last 8 s; None: this cannot be told."""
        if pts_us is None:
            return None
        if self._last_pts_us is not None and pts_us < self._last_pts_us:
            self._start_over()  # as the camera did
        self._last_pts_us = pts_us
        delta_us = arrived_us - pts_us
        if self._disproved:
            return None
        if not self.trusted:
            self._try(arrived_us, delta_us)
            return None
        self._least.add(delta_us, arrived_us)
        self._watch(arrived_us, delta_us)
        least_us = self._least.value(arrived_us)
        return int(delta_us - (delta_us if least_us is None else least_us)) if self.trusted else None

    def _start_over(self) -> None:
        self.trusted = self._disproved = False
        self._trial.clear()
        self._least = MinWindow(WINDOW_US)
        self._block = self._block_before_us = None
        self._drifted = 0

    def _try(self, arrived_us: int, delta_us: int) -> None:
        self._trial.append((arrived_us, delta_us))
        begun_us = self._trial[0][0]
        if arrived_us - begun_us < TRIAL_US or len(self._trial) < TRIAL_PICTURES:
            return
        middle_us = (begun_us + arrived_us) // 2
        early = [delta for at, delta in self._trial if at <= middle_us]
        late = [delta for at, delta in self._trial if at > middle_us]
        # Least against least: a picture held up on its way says nothing about the clock.
        if abs(min(late) - min(early)) <= TOLERANCE_US:
            self.trusted = True
            for at, delta in self._trial:
                self._least.add(delta, at)
        self._trial.clear()

    def _watch(self, arrived_us: int, delta_us: int) -> None:
        """The least of every five seconds must stay where it was; twice off in one direction is another pace."""
        if self._block is None:
            self._block = (arrived_us, delta_us)
            return
        begun_us, least_us = self._block
        if arrived_us - begun_us < BLOCK_US:
            self._block = (begun_us, min(least_us, delta_us))
            return
        before_us, self._block_before_us = self._block_before_us, least_us
        self._block = (arrived_us, delta_us)
        if before_us is None:
            return
        step = (least_us > before_us + TOLERANCE_US) - (least_us < before_us - TOLERANCE_US)
        self._drifted = self._drifted + step if step * self._drifted > 0 else step
        if abs(self._drifted) >= 2:
            self.trusted, self._disproved = False, True
