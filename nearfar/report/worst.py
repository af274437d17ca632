"""The worst frames as the page shows them: picture, boxes in source pixels, where the time went."""

import base64
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearfar.report.frames import PARTS, Line, parts_of
from nearfar.report.run import Run

_MOST_BOXES = 60
_MOST_PICTURE_BYTES = 400_000
_SIZE = re.compile(r"\.(\d+)x(\d+)\.jpg$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """Left, top, width and height in source pixels."""

    x: float
    y: float
    width: float
    height: float
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A part of the latency: `share` in percent of the card's width."""

    part: str
    ms: float
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One frame. `picture` is a data URL, empty when none was kept; `deadline_share` is where its line stands."""

    stream: str
    seq: int
    verdict: str
    answered_by: str
    latency_ms: float
    deadline_ms: float
    reason: str
    model: str
    picture: str
    width_px: int
    height_px: int
    boxes: tuple[Box, ...]
    more_boxes: int
    seen: str
    segments: tuple[Segment, ...]
    deadline_share: float


def cards(run: Run) -> tuple[Card, ...]:
    """A card per worst frame, the worst first."""
    return tuple(_card(line, run.path / "worst") for line in run.frames.worst)


def _card(line: Line, pictures: Path) -> Card:
    latency_ms, deadline_ms = float(line["latency_ms"]), float(line["deadline_ms"])
    full_ms = max(latency_ms, deadline_ms) * 1.02 or 1.0
    parts = [(part, ms) for part, ms in zip(PARTS, parts_of(line["timing"]), strict=True) if ms > 0]
    if not parts:
        parts = [("unexplained" if line["answered_by"] != "missed" else "no answer", latency_ms)]
    picture, width, height = _picture(pictures, str(line["stream"]), int(line["seq"]))
    boxes = _boxes(line.get("detections"))
    return Card(
        stream=str(line["stream"]),
        seq=int(line["seq"]),
        verdict=_verdict(line, left_ms=deadline_ms - latency_ms),
        answered_by=str(line["answered_by"]),
        latency_ms=latency_ms,
        deadline_ms=deadline_ms,
        reason=str(line.get("reason", "")),
        model=str(line.get("model", "")),
        picture=picture,
        width_px=width,
        height_px=height,
        boxes=tuple(boxes[:_MOST_BOXES]),
        more_boxes=max(0, len(boxes) - _MOST_BOXES),
        seen=_seen(line.get("detections")),
        segments=tuple(Segment(part=p, ms=ms, share=100 * ms / full_ms) for p, ms in parts),
        deadline_share=100 * deadline_ms / full_ms,
    )


def _verdict(line: Line, *, left_ms: float) -> str:
    if line["answered_by"] == "missed":
        return "missed"
    if (status := line.get("status", "ok")) != "ok":
        return f"{line['answered_by']}, {status}"
    if left_ms < 0:
        return f"{line['answered_by']}, {-left_ms:.1f} ms late"
    return f"{line['answered_by']}, {left_ms:.1f} ms before its deadline"


def _seen(detections: Any) -> str:
    """*No answer* is never told as *no objects*."""
    if not isinstance(detections, list):
        return "no answer"
    if not detections:
        return "no objects"
    return f"{len(detections)} object{'s' if len(detections) > 1 else ''}"


def _boxes(detections: Any) -> list[Box]:
    """Boxes that can be drawn; what is damaged is left out."""
    boxes = []
    for row in detections if isinstance(detections, list) else []:
        try:
            left, top, right, bottom = (float(v) for v in row["box"])
            words = f"{row['label']} {float(row['score']):.2f}"
        except (KeyError, TypeError, ValueError):
            continue
        boxes.append(
            Box(x=left, y=top, width=max(0.0, right - left), height=max(0.0, bottom - top), words=words)
        )
    return boxes


def _picture(folder: Path, stream: str, seq: int) -> tuple[str, int, int]:
    """A data URL and the size of the source; nothing when there is no such picture."""
    wanted = f"{stream}-{seq}."
    try:
        names = [p for p in folder.iterdir() if p.name.startswith(wanted)]
        for path in names:
            size = _SIZE.search(path.name)
            if size is None or path.stat().st_size > _MOST_PICTURE_BYTES:
                continue
            data = base64.b64encode(path.read_bytes()).decode()
            return f"data:image/jpeg;base64,{data}", int(size[1]), int(size[2])
    except OSError:
        pass
    return "", 0, 0
