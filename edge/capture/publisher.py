"""Where a picture becomes a frame: it gets its seq, its moments and its place in the slot, in that order.

Every picture gets its seq before it can be lost, so whatever becomes of it is counted.
"""

from collections.abc import Callable

from edge.capture.slot import Slot
from pipelines.frame import Frame, Picture


class Publisher:
    """Used by one thread at a time. Callbacks come from that thread: `captured(stream, seq)` when a seq is assigned;
    then `turned_away(frame)` is asked; then `overwritten(frame)` for the frame that was
    displaced, if any, and `offered(stream)`. A frame that is shed is only captured and `stale(frame)`.

    `latency_us` is the age a picture has when it is decoded; `paced` False: pull-driven, outside on-time figures.
    `turned_away(frame)` True: the gate of the stream did not let it pass, and has reported it; None: no gate.
    `done` after `max_frames`.
    """

    def __init__(
        self,
        *,
        stream: str,
        slot: Slot,
        latency_us: int,
        paced: bool,
        offered: Callable[[str], None],
        overwritten: Callable[[Frame], None],
        stale: Callable[[Frame], None],
        captured: Callable[[str, int], None],
        clock_us: Callable[[], int],
        unix_us: Callable[[], int],
        turned_away: Callable[[Frame], bool] | None = None,
        first_seq: int = 1,
        max_frames: int | None = None,
    ) -> None:
        self.stream = stream
        self.slot = slot
        self.captured = 0
        self._latency_us = latency_us
        self._paced = paced
        self._offered = offered
        self._overwritten = overwritten
        self._stale = stale
        self._on_captured = captured
        self._clock_us = clock_us
        self._unix_us = unix_us
        self._turned_away = turned_away
        self._first_seq = first_seq
        self._max_frames = max_frames

    @property
    def done(self) -> bool:
        return self.captured == self._max_frames

    def publish(self, picture: Picture, *, age_us: int = 0) -> None:
        """Lay the picture in the slot if its gate lets it; it is `age_us` older than `latency_us` says."""
        frame = self._frame(picture, age_us)
        if self._turned_away is not None and self._turned_away(frame):
            return
        displaced = self.slot.put(frame)
        if displaced is not None:
            self._overwritten(displaced)
        self._offered(self.stream)

    def shed(self, picture: Picture, *, age_us: int = 0) -> None:
        """Count a picture that is too old to be worth an answer."""
        self._stale(self._frame(picture, age_us))

    def _frame(self, picture: Picture, age_us: int) -> Frame:
        available_us = self._clock_us()
        age_us += self._latency_us
        frame = Frame(
            stream=self.stream,
            seq=self._first_seq + self.captured,
            picture=picture,
            captured_us=available_us - age_us,
            available_us=available_us,
            captured_unix_us=self._unix_us() - age_us,
            paced=self._paced,
        )
        self.captured += 1
        self._on_captured(self.stream, frame.seq)
        return frame
