"""Run directories as an agent leaves them, made by hand: what a report is given to read."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from edge.telemetry.worst import picture_name

START_MS = 1_796_000_000_000.0
DEADLINE_MS = 100.0

Line = dict[str, Any]

_FAR_TIMING = {
    "slot_wait": 0.5,
    "encode": 1.5,
    "transmission_est": 2.0,
    "propagation_est": 15.0,
    "network_queue_est": 3.0,
    "worker_queue": 1.0,
    "decode": 2.0,
    "batch_wait": 0.0,
    "detect": 14.0,
    "worker_other": 0.5,
    "release": 0.5,
}
_NEAR_TIMING = {
    "slot_wait": 0.5,
    "planned_wait": 0.0,
    "start": 0.5,
    "detect": 9.0,
    "hold": 1.0,
    "commit": 1.0,
}


def frame_line(seq: int, by: str = "far", **changes: Any) -> Line:
    """One line of frames.jsonl: frame `seq` of 25 a second, answered `by` (or "shed", "gated")."""
    answered = by not in ("shed", "gated")
    far, near = by == "far", by == "near"
    timing = {"far": _FAR_TIMING, "near": _NEAR_TIMING}.get(by, {})
    line = {
        "agent": "gateway",
        "run": "00" * 16,
        "stream": "door",
        "seq": seq,
        "captured_unix_ms": START_MS + 40.0 * (seq - 1),
        "outcome": "answered" if answered else by,
        "answered_by": by if answered else None,
        "status": ("ok" if far or near else "timeout") if answered else None,
        "latency_ms": (round(sum(timing.values()), 3) or 101.0) if answered else None,
        "deadline_ms": DEADLINE_MS if answered else None,
        "on_time": far or near,
        "paced": True,
        "late_far": False,
        "reason": "" if far else "link silent",
        "link": "lte" if far else "",
        "encoding": {"codec": "jpeg", "quality": 50, "width": 320, "height": 224, "bytes": 5000}
        if far
        else None,
        "model": {"far": "yolox-512", "near": "yolox@224"}.get(by, ""),
        "detections": [] if far or near else None,
        "timing": timing,
    }
    return line | changes


def link_line(at_ms: float, **changes: Any) -> Line:
    """One line of link.jsonl, `at_ms` after the start."""
    line = {
        "unix_ms": START_MS + at_ms,
        "link": "lte",
        "connected": True,
        "in_budget": True,
        "reason": "",
        "rtt_ms": 25.0,
        "rtt_min_ms": 22.0,
        "bandwidth_mbit": 9.5,
        "in_flight_bytes": 0,
        "near_guard_ms": 15.0,
        "fall_back_above_ms": 100.0,
        "return_below_ms": 50.0,
    }
    return line | changes


def mixed(count: int = 200) -> list[Line]:
    """The frames of a run in which the link went away for a quarter."""
    return [frame_line(i, "near" if 50 < i <= 100 else "far") for i in range(1, count + 1)]


def a_link(seconds: int = 8) -> Iterator[Line]:
    """Its link, five looks a second: away from the third second to the fourth."""
    for tenth in range(0, seconds * 10, 2):
        away = 20 < tenth <= 40
        yield link_line(
            tenth * 100.0,
            in_budget=not away,
            reason="pings unanswered" if away else "",
            rtt_ms=None if 30 < tenth <= 40 else 180.0 if away else 25.0,
        )


def summary_of(lines: Iterable[Line], **changes: Any) -> dict[str, Any]:
    """The summary of a run with these lines that went well."""
    lines = list(lines)
    by = {n: sum(x["answered_by"] == n for x in lines) for n in ("near", "far", "tracked", "missed")}
    shed, gated = (sum(x["outcome"] == o for x in lines) for o in ("shed", "gated"))
    kept = by["near"] + by["missed"]
    summary = {
        "agent": "gateway",
        "run": "00" * 16,
        "deadline_ms": DEADLINE_MS,
        "frames": {
            "captured": len(lines),
            **by,
            "gated": gated,
            "shed": {"overload": shed} if shed else {},
            "pending": 0,
            "adds_up": True,
        },
        "on_time": {"frames": sum(x["on_time"] for x in lines), "of": len(lines) - gated},
        "outbox": {
            "committed": kept,
            "acked": kept,
            "pending": 0,
            "evicted": {"age": 0, "bytes": 0},
            "set_aside": 0,
            "adds_up": True,
        },
        "sinks": {"jsonl": {"written": len(lines), "dropped": 0, "failed": 0}},
        "run_dir": {"lines": len(lines), "lost": 0},
        "source_errors": {},
        "broken": [],
    }
    return summary | changes


def write_lines(path: Path, lines: Iterable[Line]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        file.writelines(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)


def write_run(
    root: Path,
    lines: Iterable[Line],
    *,
    link: Iterable[Line] = (),
    summary: dict[str, Any] | None = None,
) -> Path:
    """A run directory at `root`; None = no summary, as of an agent that was killed."""
    write_lines(root / "frames.jsonl", lines)
    if link := list(link):
        write_lines(root / "link.jsonl", link)
    if summary is not None:
        (root / "summary.json").write_text(json.dumps(summary))
    return root


def write_picture(root: Path, seq: int, *, stream: str = "door") -> None:
    """The picture of a frame, as the agent keeps it."""
    (root / "worst").mkdir(exist_ok=True)
    picture = np.full((180, 320, 3), 80, np.uint8)
    path = root / "worst" / picture_name(stream=stream, seq=seq, width_px=640, height_px=360)
    assert cv2.imwrite(str(path), picture)
