"""The gatekeeper of one stream: asks its gate about every frame, in the capture thread, before the slot.

Capture is where a look at a picture costs nobody else anything: the dispatcher never waits for it, nor does another
stream. A gate that breaks opens: the frame passes, and the fault is said once. Whoever is turned away is reported.
"""

import logging
from collections.abc import Callable
from dataclasses import replace

from pipelines.frame import Frame
from pipelines.gates.base import Gate

log = logging.getLogger(__name__)


class Gatekeeper:
    """`gated(frame, why)` is called for a frame that does not pass, from the thread that asked."""

    def __init__(self, gate: Gate, *, gated: Callable[[Frame, str], None]) -> None:
        self._gate = gate
        self._gated = gated
        self._period_us: float | None = None
        self._said = ""

    def filmed_at(self, fps: float) -> None:
        """The source is read at another pace than it was filmed: the gate's time is that of the film (0: unknown)."""
        self._period_us = 1e6 / fps if fps > 0 else None

    def turns_away(self, frame: Frame) -> bool:
        """Whether `frame` ends here, counted as gated. Frames of the stream, in order."""
        now_us = frame.available_us if self._period_us is None else round(frame.seq * self._period_us)
        try:
            verdict = self._gate.judge(frame.picture, now_us)
        except Exception as error:  # noqa: BLE001 - whatever breaks in a gate must not silence the camera
            self._say(frame.stream, f"{type(error).__name__}: {error}")
            return False
        if not verdict.passes:
            # What waits for its turn to be counted needs no pixels.
            self._gated(replace(frame, picture=frame.picture[:0].copy()), verdict.why.value)
        return not verdict.passes

    def _say(self, stream: str, words: str) -> None:
        if words != self._said:
            self._said = words
            log.error("stream %s: its gate failed, frames pass it unjudged: %s", stream, words)
