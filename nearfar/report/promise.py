"""The first line of the report: was the promise kept, and if not, what broke.

Kept: at least ON_TIME_WANTED of the frames were answered by their deadline, no answer was lost, no frame went
uncounted. A run whose summary is missing, damaged or silent about losses is not judged, unless what is known is a
breach already: nothing is said to be well that nobody counted.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from nearfar.report.frames import OnTime
from nearfar.report.run import Run

ON_TIME_WANTED = 0.99
_ALL_THERE = "no answer lost, no frame uncounted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """`line` is the whole verdict in words; `details` what else has to be said, a sentence each."""

    state: Literal["kept", "broken", "open"]
    line: str
    details: tuple[str, ...] = ()


def judge(run: Run) -> Promise:
    """The verdict of a run."""
    share = run.on_time
    if not len(run.frames) and run.said("frames", "captured") == 0:
        return Promise(
            state="open",
            line="Nothing to judge: no frame was captured.",
            details=(*_source_errors(run), *_notes(run)),
        )
    breaches = _breaches(run)
    if why := _unjudged(run):
        written = (
            f"Of the frames it wrote down, {_of(share, run)}." if len(run.frames) else _none_written(run)
        )
        if not breaches:
            return Promise(state="open", line=f"Not judged: {why}. {written}", details=_notes(run))
        return Promise(
            state="broken",
            line=f"Promise broken: {'; '.join(breaches)}. {written}",
            details=(f"More may be lost: {why}.", *_notes(run)),
        )
    timely = share.rate is None or share.rate >= ON_TIME_WANTED
    if share.rate is None:
        first = f"{len(run.frames):,} frames; none had a deadline to keep (a source that is read as fast as it goes)"
    else:
        first = _of(share, run)
    if timely and not breaches:
        return Promise(
            state="kept",
            line=f"Promise kept: {first}; {_ALL_THERE}.",
            details=_notes(run),
        )
    wanted = "" if timely else f", and {ON_TIME_WANTED:.0%} are wanted".replace("%", " %")
    return Promise(
        state="broken",
        line=f"Promise broken: {'; '.join([first + wanted, *(breaches or [_ALL_THERE])])}.",
        details=_notes(run),
    )


def percent(part: float, whole: float) -> str:
    """Never rounded up to 100 nor down to 0."""
    if not whole:
        return "–"
    share = 100 * part / whole
    if 0 < share < 0.05 or 99.95 <= share < 100:
        return f"{share:.3f} %" if 0.0005 <= share < 99.9995 else (">99.999 %" if share > 50 else "<0.001 %")
    return f"{share:.1f} %" if share not in (0, 100) else f"{share:.0f} %"


def _of(share: OnTime, run: Run) -> str:
    deadline = "" if run.deadline_ms is None else f" of {run.deadline_ms:g} ms"
    return (
        f"{share.frames:,} of {share.of:,} frames ({percent(share.frames, share.of)}) answered by their "
        f"deadline{deadline}"
    )


def _unjudged(run: Run) -> str:
    """What keeps anybody from knowing whether all is there; empty when nothing does."""
    if run.summary_damaged:
        return "summary.json is damaged and cannot be read"
    if run.summary is None:
        return "the agent was killed or still runs (there is no summary)"
    if untold := run.untold:
        return f"summary.json does not say {', '.join(untold)}, so nobody knows whether all is there"
    return ""


def _none_written(run: Run) -> str:
    if run.frames.damaged:
        return "Not one line of frames.jsonl can be read."
    return "frames.jsonl holds no frame."


def _breaches(run: Run) -> list[str]:
    """What was lost or not counted, in words."""
    said: list[str] = []
    if run.said("frames", "adds_up") is False:
        said.append("the counts of frames do not add up")
    # What the agent lost it says itself, below; the rest was damaged since.
    gone = run.count("frames", "captured") - len(run.frames) - run.count("run_dir", "lost")
    if gone > 0:
        said.append(f"{gone:,} frames have no readable line in frames.jsonl")
    evicted = run.total("outbox", "evicted") - run.count("outbox_before", "evicted")
    set_aside = run.count("outbox", "set_aside") - run.count("outbox_before", "set_aside")
    for words, count in (
        ("evicted from the outbox", evicted),
        ("set aside with a damaged outbox", set_aside),
    ):
        if count > 0:
            said.append(f"{count:,} answers were {words} before the cloud had them")
    if run.said("outbox", "adds_up") is False:
        said.append("the counts of the outbox do not add up")
    # What the agent itself said at its end: it knows what it could not keep, write or hand over.
    told = run.said("broken")
    said += [str(words) for words in told] if isinstance(told, list) else list(_source_errors(run))
    if pending := run.count("frames", "pending"):
        said.append(f"{pending:,} frames were still unanswered at the end")
    return said


def _source_errors(run: Run) -> tuple[str, ...]:
    return tuple(f"stream {name}: {error}" for name, error in run.section("source_errors").items())


def _notes(run: Run) -> tuple[str, ...]:
    """What is no breach and still has to be known."""
    said = []
    if fallen := sum(not check.held for check in run.checks):
        said.append(f"Of the demo's {len(run.checks)} checks {fallen} did not hold; they are listed below.")
    if damaged := run.frames.damaged:
        said.append(f"{damaged:,} damaged or cut-off lines of frames.jsonl were skipped.")
    if damaged := run.links_damaged:
        said.append(f"{damaged:,} damaged or cut-off lines of link.jsonl were skipped.")
    if waiting := run.count("outbox", "pending"):
        said.append(
            f"{waiting:,} answers still wait in the outbox on the gateway for the cloud to take them."
        )
    if late := int(np.count_nonzero(run.frames.late_far)):
        said.append(f"{late:,} far results came after another answer was given; they corrected the record.")
    return tuple(said)
