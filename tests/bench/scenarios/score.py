"""What a run amounts to, from what the agent and the worker left behind.

on time = near or far, status ok, out by the deadline, of all captured. On-time F1: persons at IoU .5 against the
reference on raw frames, a late or missing answer counted as nothing seen. A frame's place in the clip follows from its
seq; every payload's size is checked against the cache, so a slip would show as `misplaced`.
"""

import json
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nearfar.simulation.transitions import far_again
from pipelines.matching import Boxes
from pipelines.windows import quantile
from tests.bench.scenarios.clip_cache import ALL_RUNGS, ClipCache
from tests.bench.scenarios.persons import LABEL, counts

Line = dict[str, Any]
SHARE_OVER_S = 5.0
BACK_WITHIN_S = 1.5
"""After a bad span far has so long to return; its share is looked at from then on."""


def figures(
    root: Path,
    cache: ClipCache,
    *,
    spans: Sequence[tuple[float, float]],
    begun_unix_s: float,
    frames: int,
    left_out: Collection[int] = frozenset(),
) -> dict[str, Any]:
    """`spans` in s after `begun_unix_s`, the moment the scenario began. `left_out`: places of frames, from 0, that the
    machine disturbed; they count in no rate of answers in time and in no F1, `on_time_all` has them."""
    lines = _lines(root / "run/frames.jsonl")
    summary = json.loads((root / "run/summary.json").read_text())
    sights = _lines(root / "run/link.jsonl") if (root / "run/link.jsonl").exists() else []
    answered = [line for line in lines if line["outcome"] == "answered"]
    ages_ms = sorted(line["latency_ms"] for line in answered)
    by = Counter(line["answered_by"] for line in answered)
    captured = len(lines)
    spans_ms = [(1000 * (begun_unix_s + a), 1000 * (begun_unix_s + b)) for a, b in spans]
    counted = [line for line in lines if line["seq"] - 1 not in left_out]
    found = {
        "captured": captured,
        "missing": frames - captured,
        "left_out": captured - len(counted),
        "on_time": _on_time(counted),
        "on_time_all": _on_time(lines),
        "late_or_none": [
            [line["seq"], line["answered_by"] or line["reason"], line["latency_ms"]]
            for line in lines
            if not line["on_time"]
        ][:20],
        "f1": round(on_time_f1(counted, cache), 4),
        "far_free_f1": round(_free_f1(counted, cache), 4),
        "by": dict(by),
        "shed": dict(Counter(line["reason"] for line in lines if line["outcome"] == "shed")),
        "late_far": sum(line["late_far"] for line in lines),
        "misplaced": sum(_misplaced(line, cache) for line in lines),
        "kb_per_frame": round(summary["far"]["payload_bytes"] / captured / 1000, 2),
        "offloaded": summary["far"]["offloaded"],
        "rejected": summary["far"]["rejected"],
        "near_runs": summary["near"]["runs"],
        "connections": sum(link["connections"] for link in summary["links"].values()),
        "staleness_ms": {
            f"p{q:g}": round(quantile(ages_ms, q / 100), 1) for q in (50, 95, 99, 100) if ages_ms
        },
        "near_ms": _near_ms(answered),
        "near_guard_ms": summary["near_guard_ms"],
        "margin_ms": summary["margin_ms"],
        "over_budget_after_ms": _over_budget_after_ms(sights, spans_ms),
        "far_again_ms": _far_again_ms(answered, spans_ms),
        "share_regained": _share_regained(lines, spans_ms),
        "rungs": _rungs(answered),
        "broken": summary.get("broken", []),
        "outbox": {
            k: summary["outbox"][k] for k in ("committed", "acked", "pending") if k in summary["outbox"]
        },
        "worker": _worker(root / "worker"),
    }
    answers = len(answered)
    kept = found["worker"].get("answers", 0)
    found["not_in_the_cloud"] = answers - kept
    return found


def _on_time(lines: Sequence[Line]) -> float:
    return round(sum(bool(line["on_time"]) for line in lines) / len(lines), 5)


def on_time_f1(lines: Iterable[Line], cache: ClipCache) -> float:
    """Over all frames together."""
    true = false = there = 0
    for line in lines:
        reference = _reference(line, cache)
        there += len(reference)
        if line["on_time"]:
            hit, wrong = counts(_persons_of(line), reference)
            true, false = true + hit, false + wrong
    total = true + false + there
    return 2 * true / total if total else 1.0


def _free_f1(lines: Sequence[Line], cache: ClipCache) -> float:
    """Had every frame been answered far at the best rung of all, with no network between."""
    best = max(range(len(ALL_RUNGS)), key=lambda rung: cache.f1(ALL_RUNGS[rung]))
    places = [(line["seq"] - 1) % len(cache) for line in lines]
    hits = [cache.counted(place, best) for place in places]
    there = sum(len(cache.references[place]) for place in places)
    return 2 * sum(t for t, _ in hits) / (sum(t + f for t, f in hits) + there)


def _reference(line: Line, cache: ClipCache) -> Boxes:
    place: int = (line["seq"] - 1) % len(cache)
    return cache.references[place]


def _persons_of(line: Line) -> Boxes:
    """Best first."""
    rows = [row for row in line["detections"] or () if row["label"] == LABEL]
    rows.sort(key=lambda row: -row["score"])
    return np.array([row["box"] for row in rows], np.float32).reshape(-1, 4)


def _misplaced(line: Line, cache: ClipCache) -> bool:
    """Whether the payload is none of its place in the clip."""
    if line["encoding"] is None:
        return False
    return line["encoding"]["bytes"] not in cache.payload_bytes[(line["seq"] - 1) % len(cache)]


def _near_ms(answered: Sequence[Line]) -> float | None:
    """Median of a near run."""
    took_ms = sorted(line["timing"]["detect"] for line in answered if line["answered_by"] == "near")
    return round(quantile(took_ms, 0.5), 2) if took_ms else None


def _rungs(answered: Sequence[Line]) -> dict[str, int]:
    """Far answers by rung."""
    sent = [line["encoding"] for line in answered if line["answered_by"] == "far" and line["encoding"]]
    return dict(Counter(f"q{e['quality']} {e['width']}x{e['height']}" for e in sent))


def _over_budget_after_ms(
    sights: Sequence[Line], spans_ms: Sequence[tuple[float, float]]
) -> list[float | None]:
    """From each bad span's start until the link was said to be over budget; None = it never was."""
    out: list[float | None] = []
    for start_ms, end_ms in spans_ms:
        if start_ms == end_ms:
            continue
        over = [s["unix_ms"] for s in sights if start_ms <= s["unix_ms"] <= end_ms and not s["in_budget"]]
        out.append(round(min(over) - start_ms, 1) if over else None)
    return out


def _far_again_ms(answered: Sequence[Line], spans_ms: Sequence[tuple[float, float]]) -> list[float | None]:
    """From each bad span's end to the next far answer on time; None = there was none before the next span."""
    out_ms: list[float] = sorted(
        line["captured_unix_ms"] + line["latency_ms"]
        for line in answered
        if line["answered_by"] == "far" and line["on_time"]
    )
    # A span without a length is an event: what was under way when it happened does not count.
    looked_from = [end if start != end else _after_event_ms(answered, end) for start, end in spans_ms]
    found = far_again(out_ms, spans_ms, looked_from=looked_from)
    return [None if again_ms is None else round(again_ms, 1) for again_ms in found]


def _after_event_ms(answered: Sequence[Line], at_ms: float) -> float:
    """The end of the first frame captured after `at_ms` that far did not answer; `at_ms` if far answered on."""
    after = sorted((line for line in answered if line["captured_unix_ms"] >= at_ms), key=lambda x: x["seq"])
    lost = next((line for line in after if line["answered_by"] != "far"), None)
    return at_ms if lost is None else float(lost["captured_unix_ms"] + lost["latency_ms"])


def _share_regained(lines: Sequence[Line], spans_ms: Sequence[tuple[float, float]]) -> list[float | None]:
    """Far's share in the 5 s from 1.5 s after each bad span, against its share in the 5 s before it."""

    def share(from_ms: float, to_ms: float) -> float | None:
        inside = [line for line in lines if from_ms <= line["captured_unix_ms"] < to_ms]
        if len(inside) < 5:
            return None
        return float(sum(line["answered_by"] == "far" for line in inside) / len(inside))

    out: list[float | None] = []
    for start_ms, end_ms in spans_ms:
        before = share(start_ms - 1000 * SHARE_OVER_S, start_ms)
        begin_ms = end_ms + 1000 * BACK_WITHIN_S
        after = share(begin_ms, begin_ms + 1000 * SHARE_OVER_S)
        out.append(round(after / before, 3) if before and after is not None else None)
    return out


def _worker(state: Path) -> dict[str, Any]:
    """What the record store has, and what the scripted worker knew of the payloads."""
    found: dict[str, Any] = {}
    if (state / "records.db").exists():
        with sqlite3.connect(f"file:{state}/records.db?mode=ro", uri=True) as store:
            row = store.execute(
                "SELECT count(*), count(answered_by), count(far_status) FROM records WHERE agent = ?",
                ("bench",),
            ).fetchone()
        store.close()
        found = {"records": row[0], "answers": row[1], "far_results": row[2]}
    if (state / "counts.json").exists():
        found |= json.loads((state / "counts.json").read_text())
    return found


def _lines(path: Path) -> list[Line]:
    with path.open() as file:
        lines = [json.loads(line) for line in file]
    return sorted(lines, key=lambda line: line.get("seq", 0))
