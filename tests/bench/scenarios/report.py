"""The table of a file of runs, each policy beside near_only of the same scenario, deadline and round; and the bars."""

from collections.abc import Callable, Iterable, Sequence
from statistics import fmean
from typing import Any

from tests.bench.scenarios.results import Results

Row = dict[str, Any]
Pair = tuple[Row, Row]
OURS = "deadline"
ON_TIME, NEVER_BELOW = 0.999, 0.002
GAP, CPU_RATIO = 0.6, 1.3
RETURN_MS = {"rtt_step": 320.0}
LONG_RETURN_MS = 1500.0
"""First far answer after an outage of more than a second; after a fall of the round trip 300 ms and a round trip."""
WITHOUT_RETURN = ("worker_slow", "rate_collapse")
"""What heals there is no outage: no bar, the figure stands in the table."""
COLUMNS = (
    "scenario",
    "deadline",
    "policy",
    "on time",
    "F1",
    "far",
    "kB/frame",
    "CPU ms/frame",
    "against near_only",
    "age p50/p95 ms",
    "falls back ms",
    "far again ms",
    "share regained",
    "late far",
    "rejected",
)


def one_line(row: Row) -> str:
    """A run as it ends, for who watches."""
    plan = row["plan"]
    name = f"{plan['scenario']} {plan['policy']} {plan['deadline_ms']} ms"
    if row.get("failed"):
        return f"{name}: FAILED {row['failed'].splitlines()[0]}"
    back = "" if not row["far_again_ms"] else f" far again {row['far_again_ms']}"
    why = f" DISCARDED: {row['discarded']}" if row["discarded"] else ""
    return (
        f"{name}: on time {100 * row['on_time']:.2f} % F1 {row['f1']:.3f} far {_share(row, 'far'):.2f} "
        f"{row['kb_per_frame']} kB {row['cpu_ms_per_frame']} ms CPU{back}{why}"
    )


def markdown(results: Results) -> str:
    """Bars first, then a row per run, then what was discarded or failed."""
    pairs = _pairs(results.good)
    out = ["| bar | wanted | got | |", "| --- | --- | --- | --- |"]
    out += [
        f"| {what} | {want} | {got} | {'ok' if ok else '**missed**'} |"
        for what, want, got, ok in _bars(pairs)
    ]
    out += ["", f"| {' | '.join(COLUMNS)} |", "|" + " --- |" * len(COLUMNS)]
    near = {_key(row): row for row in results.good if row["plan"]["policy"] == "near_only"}
    out += [_table_row(row, near.get(_key(row))) for row in results.good]
    if results.good:
        plan = results.good[0]["plan"]
        out += [
            "",
            f"{plan['fps']:g} fps, congestion control {plan['cc']}, {plan['link']}, {plan['worker']} worker.",
        ]
    out += [
        "",
        f"Discarded: {len(results.discarded)} of {len(results.rows)} runs.",
        *(
            f"- {_name(row)}: {row['discarded']} (on time {100 * row['on_time']:.2f} %)"
            for row in results.discarded
        ),
        *(f"- {_name(row)}: failed, {row['failed'].splitlines()[0]}" for row in results.failed),
    ]
    return "\n".join(out)


def held(results: Results) -> bool:
    bars = list(_bars(_pairs(results.good)))
    return bool(bars) and all(ok for *_, ok in bars)


def _key(row: Row) -> tuple[Any, ...]:
    """What a run shares with the run of near_only it is compared with."""
    plan = row["plan"]
    return tuple(value for name, value in sorted(plan.items()) if name != "policy")


def _pairs(rows: Iterable[Row]) -> list[Pair]:
    """Our policy and near_only of the same weather."""
    rows = list(rows)
    near = {_key(row): row for row in rows if row["plan"]["policy"] == "near_only"}
    return [(row, near[_key(row)]) for row in rows if row["plan"]["policy"] == OURS and _key(row) in near]


def _bars(pairs: Sequence[Pair]) -> Iterable[tuple[str, str, str, bool]]:
    """(what, wanted, got, whether it held)"""
    for ours, near in pairs:
        name = f"{ours['plan']['scenario']}, {ours['plan']['deadline_ms']} ms"
        floor = near["on_time"] - NEVER_BELOW
        if near["on_time"] >= ON_TIME:
            floor = max(floor, ON_TIME)
        yield (
            f"{name}: on time",
            f"≥ {100 * floor:.2f} %",
            f"{100 * ours['on_time']:.2f} %",
            ours["on_time"] >= floor,
        )
        yield f"{name}: F1", f"≥ {near['f1']:.3f}", f"{ours['f1']:.3f}", ours["f1"] >= near["f1"]
        yield from _returns(name, ours)
        lost = ours["not_in_the_cloud"]
        yield f"{name}: answers not in the cloud's store", "0", str(lost), lost == 0
    if pairs:
        gap = sum(ours["far_free_f1"] - near["f1"] for ours, near in pairs)
        closed = sum(ours["f1"] - near["f1"] for ours, near in pairs) / gap
        yield (
            "gap from near to far without a network closed, all runs",
            f"≥ {GAP:.0%}",
            f"{closed:.1%}",
            closed >= GAP,
        )
        ratio = fmean(ours["cpu_ms_per_frame"] / near["cpu_ms_per_frame"] for ours, near in pairs)
        yield "CPU of the agent against near_only, mean", f"≤ {CPU_RATIO}", f"{ratio:.2f}", ratio <= CPU_RATIO


def _returns(name: str, row: Row) -> Iterable[tuple[str, str, str, bool]]:
    scenario = row["plan"]["scenario"]
    if scenario in WITHOUT_RETURN:
        return
    most_ms = RETURN_MS.get(scenario, LONG_RETURN_MS)
    for back_ms in row["far_again_ms"]:
        good = back_ms is not None and back_ms <= most_ms
        yield f"{name}: first far answer after it", f"≤ {most_ms:g} ms", f"{back_ms} ms", good


def _table_row(row: Row, near: Row | None) -> str:
    plan = row["plan"]
    ratio = "" if near is None else f"{row['cpu_ms_per_frame'] / near['cpu_ms_per_frame']:.2f}"
    age = row["staleness_ms"]
    cells = [
        plan["scenario"],
        f"{plan['deadline_ms']} ms",
        plan["policy"],
        f"{100 * row['on_time']:.2f} %",
        f"{row['f1']:.3f}",
        f"{_share(row, 'far'):.2f}",
        f"{row['kb_per_frame']:.1f}",
        f"{row['cpu_ms_per_frame']:.1f}",
        ratio,
        f"{age.get('p50', 0):.0f}/{age.get('p95', 0):.0f}",
        _list(row["fall_back_ms"], lambda v: f"{v:.0f}"),
        _list(row["far_again_ms"], lambda v: f"{v:.0f}"),
        _list(row["share_regained"], lambda v: f"{v:.2f}"),
        str(row["late_far"]),
        str(sum(row["rejected"].values())),
    ]
    return f"| {' | '.join(cells)} |"


def _list(values: Sequence[float | None], words: Callable[[float], str]) -> str:
    return ", ".join("never" if value is None else words(value) for value in values)


def _share(row: Row, by: str) -> float:
    return float(row["by"].get(by, 0) / row["captured"])


def _name(row: Row) -> str:
    plan = row["plan"]
    return f"{plan['scenario']}, {plan['policy']}, {plan['deadline_ms']} ms"
