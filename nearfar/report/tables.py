"""The report's tables: every frame counted, the outbox, each stream, reasons, and what the run was."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from nearfar.report.axis import span, utc
from nearfar.report.frames import OUTCOMES
from nearfar.report.promise import percent
from nearfar.report.run import Run

_MOST_REASONS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """A sum that must hold: `total = Σ terms`, with what is left over if it does not."""

    total_name: str
    total: int
    terms: tuple[tuple[str, int], ...]

    @property
    def sum(self) -> int:
        return sum(count for _, count in self.terms)

    @property
    def holds(self) -> bool:
        return self.total == self.sum

    @property
    def words(self) -> str:
        parts = " + ".join(f"{count:,} {name}" for name, count in self.terms)
        return f"{self.total:,} {self.total_name} {'=' if self.holds else '≠'} {parts}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of a table: cells as text, the first one names the row."""

    cells: tuple[str, ...]


def frames_law(run: Run) -> Law:
    """captured = near + far + tracked + missed + gated + shed + pending, by the summary or else by the lines."""
    if "captured" in run.section("frames"):
        terms = [(name, run.count("frames", name)) for name in ("far", "near", "tracked", "missed")]
        terms.append(("shed", run.total("frames", "shed")))
        terms += [(name, run.count("frames", name)) for name in ("gated", "pending")]
        return Law(total_name="captured", total=run.count("frames", "captured"), terms=tuple(terms))
    counted = tuple((name, run.frames.count(name)) for name in OUTCOMES)
    return Law(total_name="lines", total=len(run.frames), terms=counted)


def outbox_law(run: Run) -> Law | None:
    """committed = acked + pending + evicted + set aside; None without a summary."""
    if "committed" not in run.section("outbox"):
        return None
    terms = (
        ("acked by the cloud", run.count("outbox", "acked")),
        ("waiting", run.count("outbox", "pending")),
        ("evicted", run.total("outbox", "evicted")),
        ("set aside", run.count("outbox", "set_aside")),
    )
    return Law(total_name="committed", total=run.count("outbox", "committed"), terms=terms)


def outbox_rows(run: Run) -> list[Row]:
    outbox = run.section("outbox")
    rows = [
        ("sent again from the outbox", _bytes(outbox.get("bytes_sent"))),
        ("on disk at the end", _bytes(outbox.get("bytes"))),
        ("written to flash", _bytes(outbox.get("flash_bytes_written"))),
        ("commit, 99th percentile", _ms(outbox.get("commit_p99_us"), 1000)),
    ]
    return [Row(cells=(name, text)) for name, text in rows if text]


def stream_rows(run: Run) -> list[Row]:
    """Stream, frames, on time, far, near, tracked, missed, shed, gated, p50, p99."""
    frames = run.frames
    rows = []
    for number, name in enumerate(frames.streams):
        of = frames.stream == number
        by = [int(np.count_nonzero(of & frames.of(o))) for o in OUTCOMES]
        timely = frames.timely(of)
        latency = frames.latency_ms[of & frames.answered]
        p50, p99 = np.quantile(latency, [0.5, 0.99]) if len(latency) else (np.nan, np.nan)
        rows.append(
            Row(
                cells=(
                    name,
                    f"{int(np.count_nonzero(of)):,}",
                    percent(timely.frames, timely.of),
                    *(f"{n:,}" for n in by),
                    "–" if np.isnan(p50) else f"{p50:.1f}",
                    "–" if np.isnan(p99) else f"{p99:.1f}",
                )
            )
        )
    return rows


def reason_rows(run: Run) -> list[Row]:
    """Outcome, reason, how often; the most frequent ones."""
    found = [
        (count, outcome, reason)
        for outcome, reasons in run.frames.reasons.items()
        for reason, count in reasons.items()
    ]
    found.sort(key=lambda row: (-row[0], row[1], row[2]))
    rows = [Row(cells=(outcome, reason, f"{count:,}")) for count, outcome, reason in found[:_MOST_REASONS]]
    if len(found) > _MOST_REASONS:
        rest = sum(count for count, _, _ in found[_MOST_REASONS:])
        rows.append(Row(cells=("", f"{len(found) - _MOST_REASONS} more", f"{rest:,}")))
    return rows


def byte_rows(run: Run) -> list[Row]:
    """What went up, and what it is compared with."""
    sent = run.frames.sent_bytes[run.frames.sent_bytes > 0]
    rows = []
    if len(sent):
        mean = float(sent.mean())
        total = int(sent.sum(dtype=np.int64))
        everything = mean * len(run.frames)
        rows += [
            ("pictures sent", f"{len(sent):,} of {len(run.frames):,} frames"),
            ("pictures, bytes up", _bytes(total)),
            ("one picture", f"{mean / 1000:.1f} kB on average, {int(sent.max()) / 1000:.1f} kB at most"),
            ("every frame, sent the same way", _bytes(everything)),
            ("sent of that", percent(total, everything)),
        ]
    ups = {name: run.count("links", name, "bytes_up") for name in run.section("links")}
    if ups:
        each = ", ".join(f"{name} {_bytes(up)}" for name, up in ups.items()) if len(ups) > 1 else ""
        all_up = _bytes(sum(ups.values()))
        rows.append(("all bytes up, with protocol and backfill", f"{all_up} ({each})" if each else all_up))
    return [Row(cells=row) for row in rows]


def fact_rows(run: Run) -> list[Row]:
    """What the run was and where, as far as the summary says it."""
    facts, machine = run.section("facts"), run.section("facts", "machine")
    rows: list[tuple[str, Any]] = [
        ("agent", run.said("agent") or _from_worst(run, "agent")),
        ("run", run.said("run") or _from_worst(run, "run")),
        ("started", utc(run.start_ms) if run.start_ms else None),
        ("lasted", span(run.end_ms - run.start_ms) if run.start_ms else None),
        ("deadline", None if run.deadline_ms is None else f"{run.deadline_ms:g} ms"),
        ("round-trip band", _band(run)),
        ("policy", " · ".join(str(w) for w in (facts.get("policy"), _hedge(facts)) if w)),
        ("streams", "; ".join(_streams(run.section("facts", "streams").items()))),
        ("near model", _model(run.section("facts", "near"))),
        ("near, smaller", facts.get("near_smaller")),
        ("tracker", facts.get("tracker")),
        ("far model", _model(run.section("facts", "far"))),
        ("pictures", "; ".join(_rungs(facts.get("ladder")))),
        ("links", ", ".join(f"{name}: {url}" for name, url in run.section("facts", "links").items())),
        ("machine", machine.get("host")),
        ("system", machine.get("system")),
        ("processor", _processor(machine)),
        ("software", _software(run)),
        ("directory", str(run.path)),
    ]
    return [Row(cells=(name, str(value))) for name, value in rows if value]


def _from_worst(run: Run, key: str) -> str:
    return str(run.frames.worst[0].get(key, "")) if run.frames.worst else ""


def _band(run: Run) -> str:
    said = run.links[0] if run.links else None
    above, below = (said.fall_back_above_ms, said.return_below_ms) if said is not None else (None, None)
    facts = run.section("facts")
    above = facts.get("fall_back_above_ms") if above is None else above
    below = facts.get("return_below_ms") if below is None else below
    if not isinstance(above, int | float) or not isinstance(below, int | float):
        return ""
    return f"near above {above:g} ms, far again below {below:g} ms"


def _hedge(facts: dict[str, Any]) -> str:
    return f"hedge {facts['hedge']}" if facts.get("hedge") else ""


def _streams(streams: Iterable[tuple[str, Any]]) -> list[str]:
    said = []
    for name, s in streams:
        if isinstance(s, dict):
            size = f" {s.get('width')}x{s.get('height')}" if s.get("width") else ""
            said.append(f"{name} ({s.get('source')}{size})")
    return said


def _model(model: dict[str, Any]) -> str:
    sha256 = str(model.get("sha256") or "")
    return f"{model.get('name', '')}{f' (sha256 {sha256[:12]}…)' if sha256 else ''}"


def _rungs(ladder: object) -> list[str]:
    said = []
    for rung in ladder if isinstance(ladder, list) else []:
        if isinstance(rung, dict) and rung.get("codec"):
            quality = f" quality {rung['quality']}" if rung.get("quality") else ""
            said.append(f"{rung['codec']}{quality}, scale {rung.get('scale')} of the far input")
    return said


def _processor(machine: dict[str, Any]) -> str:
    if not machine.get("cores"):
        return ""
    return f"{machine.get('cpu') or 'processor'}, {machine['cores']} cores for this process"


def _software(run: Run) -> str:
    machine = run.section("facts", "machine")
    packages = run.section("facts", "machine", "packages")
    names = [f"Python {machine['python']}"] if machine.get("python") else []
    return ", ".join(names + [f"{name} {version}" for name, version in packages.items()])


def _bytes(value: Any) -> str:
    if not isinstance(value, int | float):
        return ""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= size:
            return f"{value / size:.1f} {unit}"
    return f"{value:.0f} bytes"


def _ms(value: Any, divisor: float) -> str:
    return f"{value / divisor:.1f} ms" if isinstance(value, int | float) else ""
