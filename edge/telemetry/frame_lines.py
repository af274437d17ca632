"""A captured frame as one line of JSON: what sinks and the run directory write, and people read.

Every line has the same keys. Times in ms, boxes in source pixels; *no answer* is null, never an empty list.
"""

from typing import Any

from pipelines.frame import Encoding, Frame, FrameId
from pipelines.result import Answer, ShedReason

FrameLine = dict[str, Any]


def answer_line(answer: Answer, *, late_far: bool = False) -> FrameLine:
    """An answered frame as plain values. Times in ms, boxes in source pixels; no answer is null, never []."""
    return {
        **_identity(answer.id, answer.captured_unix_us),
        "outcome": "answered",
        "answered_by": answer.answered_by.value,
        "status": answer.status.value,
        "latency_ms": _ms(answer.latency_us),
        "deadline_ms": _ms(answer.deadline_us),
        "on_time": answer.on_time,
        "paced": answer.paced,
        "late_far": late_far,
        "reason": answer.reason,
        "link": answer.link,
        "p_on_time": None if answer.p_on_time is None else round(answer.p_on_time, 3),
        "encoding": None if answer.encoding is None else _encoding(answer.encoding),
        "model": answer.model,
        "age_frames": answer.age_frames,
        "detections": None if answer.detections is None else answer.detections.as_rows(),
        "timing": {name: _ms(us) for name, us in answer.timing_us.items()},
    }


def shed_line(frame: Frame, frame_id: FrameId, reason: ShedReason) -> FrameLine:
    """A frame that was given up, with the reason; it has no answer and no times."""
    return _unanswered_line(frame, frame_id, outcome="shed", reason=reason.value)


def gated_line(frame: Frame, frame_id: FrameId, why: str) -> FrameLine:
    """A frame its gate did not let pass, and why; it has no answer and no times."""
    return _unanswered_line(frame, frame_id, outcome="gated", reason=why)


def _unanswered_line(frame: Frame, frame_id: FrameId, *, outcome: str, reason: str) -> FrameLine:
    return {
        **_identity(frame_id, frame.captured_unix_us),
        "outcome": outcome,
        "answered_by": None,
        "status": None,
        "latency_ms": None,
        "deadline_ms": None,
        "on_time": False,
        "paced": frame.paced,
        "late_far": False,
        "reason": reason,
        "link": "",
        "p_on_time": None,
        "encoding": None,
        "model": "",
        "age_frames": None,
        "detections": None,
        "timing": {},
    }


def _identity(frame_id: FrameId, captured_unix_us: int) -> FrameLine:
    return {
        "agent": frame_id.agent,
        "run": frame_id.run.hex(),
        "stream": frame_id.stream,
        "seq": frame_id.seq,
        "captured_unix_ms": _ms(captured_unix_us),
    }


def _encoding(encoding: Encoding) -> dict[str, object]:
    return {
        "codec": encoding.codec,
        "quality": encoding.quality,
        "width": encoding.width_px,
        "height": encoding.height_px,
        "bits": encoding.bits,
        "bytes": encoding.body_bytes,
    }


def _ms(us: int) -> float:
    return us / 1000
