"""Frames that end before anybody is asked about them: counted on the thread that ends them, never queued.

A camera may give pictures faster than the dispatcher turns. What such a frame costs is paid by the thread that
captured it, so no other camera and no live event waits behind it, and nothing of it is lost at the end.
"""

from edge.flow.answer_desk import AnswerDesk
from edge.outbox.port import Outbox
from edge.telemetry.counters import Counters
from pipelines.frame import Frame
from pipelines.result import GapReason, ShedReason


class Unasked:
    """Safe to use from several threads; every call returns at once."""

    def __init__(self, *, outbox: Outbox, desk: AnswerDesk, counters: Counters) -> None:
        self._outbox = outbox
        self._desk = desk
        self._counters = counters

    def captured(self, stream: str, seq: int) -> None:
        """`seq` was given to a frame, whatever becomes of it."""
        self._counters.capture()
        self._outbox.captured(stream, seq)

    def shed(self, frame: Frame, reason: ShedReason) -> None:
        """Give a frame up."""
        self._counters.end_shed(reason, paced=frame.paced)
        self._outbox.gap(stream=frame.stream, seq=frame.seq, reason=GapReason.SHED, detail=reason.value)
        self._desk.shed(frame, reason)

    def gated(self, frame: Frame, why: str) -> None:
        """End a frame that its gate did not let pass."""
        self._counters.end_gated(why)
        self._outbox.gap(stream=frame.stream, seq=frame.seq, reason=GapReason.GATED, detail=why)
        self._desk.gated(frame, why)
