"""Policies side by side over one trace or many, and how much of what could be had each of them took.

    gap closed = (F1 − F1 of near_only) / (F1 of the bound − F1 of near_only)

The bounds know the future: `greedy` takes for each frame the best answer the link allows, `oracle` the best row of
answers, pictures known as well. No policy is above the oracle; a run that says so is wrong.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from nearfar.simulation.oracle import Oracle
from nearfar.simulation.outcome import Outcome
from nearfar.simulation.recipe import Setup
from nearfar.simulation.run import simulate
from nearfar.simulation.summary import Summary, summarise

BOUNDS = ("greedy", "oracle")


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the table."""

    title: str
    of: str
    digits: int
    percent: bool = False


COLUMNS = (
    Column("on time %", "on_time", 2, percent=True),
    Column("F1", "f1", 4),
    Column("far %", "far", 1, percent=True),
    Column("near %", "near", 1, percent=True),
    Column("tracked %", "tracked", 1, percent=True),
    Column("missed %", "missed", 2, percent=True),
    Column("shed %", "shed", 2, percent=True),
    Column("kB/frame", "kb_per_frame", 2),
    Column("near ms/frame", "near_ms_per_frame", 1),
    Column("age p50 ms", "staleness_p50_ms", 1),
    Column("age p95 ms", "staleness_p95_ms", 1),
    Column("fall back ms", "fall_back_ms", 0),
    Column("far again ms", "far_again_ms", 0),
    Column("p error", "p_error", 3),
)


def run(setup: Setup, policy: str) -> Outcome:
    """The outcome of a policy or a bound."""
    if policy in BOUNDS:
        greedy = policy == "greedy"
        scenario = setup.scenario
        oracle = Oracle(scenario, most_states=1, knows_pictures=False) if greedy else Oracle(scenario)
        return oracle.best()
    return simulate(setup.scenario, setup.with_policy(policy), setup.streams)


def compare(setup: Setup, policies: Sequence[str]) -> list[Summary]:
    return [summarise(run(setup, policy), setup.scenario) for policy in policies]


def gap_closed(summaries: Sequence[Summary], *, bound: str = "oracle") -> dict[str, float]:
    """Share of the gap between near_only and the bound, by policy; empty without both, or without a gap."""
    f1 = {summary.policy: summary.f1 for summary in summaries}
    if bound not in f1 or "near_only" not in f1:
        return {}
    gap = f1[bound] - f1["near_only"]
    if gap <= 0:
        return {}
    others = [name for name in f1 if name not in (*BOUNDS, "near_only")]
    return {name: (f1[name] - f1["near_only"]) / gap for name in others}


def table(summaries: Sequence[Summary]) -> str:
    """One row a policy, in plain text."""
    rows = [["", *(column.title for column in COLUMNS)]]
    rows += [[summary.policy, *(_cell(summary, column) for column in COLUMNS)] for summary in summaries]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return "\n".join(lines)


def _cell(summary: Summary, column: Column) -> str:
    value = getattr(summary, column.of)
    if value is None or (summary.policy in BOUNDS and column.of in ("fall_back_ms", "far_again_ms")):
        return "–"
    return f"{value * 100 if column.percent else value:.{column.digits}f}"
