"""Records and gaps as lines: a table for people, JSON lines and CSV for programs. Written as they are read.

Names and details come from gateways: nothing in them commands a terminal, or is a formula in a spreadsheet.
"""

import csv
import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, TextIO

from pipelines.result import Detections, Gap, GapReason

if TYPE_CHECKING:
    from cloud.store.row import RecordRow

_LINE = "{:<16} {:<8} {:<12} {:>8}  {:<8} {:<8} {:>9}  {:<3} {}"
_GAP = "{:<16} {:<8} {:<12} {:>19}  {:>10}  {:<12} {}"
CSV_FIELDS = (
    "agent",
    "run",
    "stream",
    "seq",
    "answered_by",
    "status",
    "on_time",
    "latency_ms",
    "captured_unix_ms",
    "age_ms",
    "late_far",
    "priority",
    "model",
    "far_status",
    "far_model",
    "boxes",
    "labels",
    "highest_score",
    "lowest_score",
    "source",
    "received_unix_ms",
    "payload_sha256",
    "payload_codec",
    "payload_bytes",
    "payload_kept",
)


_FORMULA = ("=", "+", "-", "@", "\t")


def plain(text: str) -> str:
    """Fit for a terminal: what does not print is written as an escape."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def table(rows: Iterable["RecordRow"]) -> Iterator[str]:
    yield _LINE.format("agent", "run", "stream", "seq", "by", "status", "ms", "on", "best detections")
    for row in rows:
        best = row.best
        seen = "-" if best is None else str(len(best))
        yield _LINE.format(
            plain(row.id.agent),
            row.id.run.hex()[:8],
            plain(row.id.stream),
            row.id.seq,
            row.answered_by.value if row.answered_by else "?",
            row.status or "?",
            "?" if row.latency_us is None else f"{row.latency_us / 1000:.1f}",
            {None: "?", True: "yes", False: "no"}[row.on_time],
            seen + (" (far, late)" if row.late_far else ""),
        )


def gap_table(found: Iterable[tuple[str, Gap]]) -> Iterator[str]:
    yield _GAP.format("agent", "run", "stream", "frames", "how many", "reason", "detail")
    for agent, gap in found:
        frames = f"{gap.first}..{gap.last}"
        yield _GAP.format(
            *(plain(agent), gap.run.hex()[:8], plain(gap.stream), frames),
            *(_how_many(gap), gap.reason.value, plain(gap.detail)),
        ).rstrip()


def _how_many(gap: Gap) -> str:
    """What a killed agent left has numbers in it that no frame ever had, and may have frames that were recorded."""
    numbers = gap.last - gap.first + 1
    return f"up to {numbers}" if gap.reason is GapReason.INTERRUPTED else str(numbers)


def json_lines(rows: Iterable["RecordRow"]) -> Iterator[str]:
    return (json.dumps(row.as_dict()) for row in rows)


def gap_json_lines(found: Iterable[tuple[str, Gap]]) -> Iterator[str]:
    return (json.dumps(gap.as_dict(agent)) for agent, gap in found)


def write_csv(rows: Iterable["RecordRow"], out: TextIO) -> None:
    """One line per record; what is a list in JSON is counted here. Text that begins like a formula gets a ' before it."""
    writer = csv.DictWriter(out, CSV_FIELDS, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        ref = row.payload
        payload = {} if ref is None else {f"payload_{name}": v for name, v in ref.as_dict().items()}
        values = {**row.as_dict(), **_boxes(row.best), **payload}
        writer.writerow({name: _no_formula(values.get(name, "")) for name in CSV_FIELDS})


def write_gap_csv(found: Iterable[tuple[str, Gap]], out: TextIO) -> None:
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("agent", "run", "stream", "first", "last", "reason", "detail"))
    for agent, gap in found:
        writer.writerow(map(_no_formula, gap.as_dict(agent).values()))


def _no_formula(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    # The csv module leaves it bare, and readers take it for the end of the line.
    text = value.replace("\r", "\\r")
    return f"'{text}" if text.startswith(_FORMULA) else text


def _boxes(best: Detections | None) -> dict[str, Any]:
    """No answer leaves the fields empty; no objects is 0."""
    if best is None:
        return {}
    names = [str(line["label"]) for line in best.as_rows()]
    counted = {name: names.count(name) for name in dict.fromkeys(names)}
    scores = best.scores
    return {
        "boxes": len(best),
        "labels": " ".join(f"{name}:{count}" for name, count in counted.items()),
        "highest_score": round(float(scores.max()), 4) if len(best) else "",
        "lowest_score": round(float(scores.min()), 4) if len(best) else "",
    }
