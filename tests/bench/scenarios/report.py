"""The table of a file of runs, each policy beside near_only of the same scenario, deadline and round; and the bars."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import fmean
from typing import Any

from tests.bench.scenarios.catalogue import BY_NAME
from tests.bench.scenarios.results import Results

Row = dict[str, Any]
Pair = tuple[Row, Row]
Bar = tuple[str, str, str, bool]
"""(what, wanted, got, whether it held)"""
OURS = "deadline"
ON_TIME, NEVER_BELOW = 0.999, 0.002
GAP, CPU_RATIO = 0.6, 1.3
SHORT_RETURN_MS, LONG_RETURN_MS = 300.0, 1500.0
"""First far answer after a bad span: 300 ms and a round trip where the one connection of the run survived it, else the
longer time, in which the agent has to dial and shake hands."""
WITHOUT_RETURN = {
    "worker_slow": "a slow worker answers on; what heals is its queue",
    "rate_collapse": "0.5 Mbit/s still carries small pictures; what heals is a buffer",
}
"""No bar on the return, and why: the figure stands in the table."""
COLUMNS = (
    "scenario",
    "deadline",
    "policy",
    "on time",
    "left out",
    "on time of all",
    "F1",
    "far",
    "kB/frame",
    "CPU ms/frame",
    "against near_only",
    "age p50/p95 ms",
    "over budget after ms",
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
    bars = _all_bars(results)
    out = ["| bar | wanted | got | |", "| --- | --- | --- | --- |"]
    out += [f"| {what} | {want} | {got} | {'ok' if ok else '**missed**'} |" for what, want, got, ok in bars]
    seen = {row["plan"]["scenario"] for row in results.rows}
    exempt = [f"- {name}: {why}" for name, why in WITHOUT_RETURN.items() if name in seen]
    if exempt:
        out += ["", "Without a bar on the first far answer after it:", *exempt]
    out += ["", f"| {' | '.join(COLUMNS)} |", "|" + " --- |" * len(COLUMNS)]
    near = {_key(row): row for row in results.good if row["plan"]["policy"] == "near_only"}
    out += [_table_row(row, near.get(_key(row))) for row in sorted(results.good, key=_place)]
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
    """Whether there is a bar and none was missed."""
    bars = _all_bars(results)
    return bool(bars) and all(ok for *_, ok in bars)


def _place(row: Row) -> tuple[Any, ...]:
    """Where a run stands in the table: what is compared stands together."""
    plan = row["plan"]
    return (
        -plan["deadline_ms"],
        plan["worker"],
        list(BY_NAME).index(plan["scenario"]),
        plan["round"],
        plan["policy"],
    )


def _all_bars(results: Results) -> list[Bar]:
    return [*_unmade(results), *_bars(_pairs(sorted(results.good, key=_place)))]


def _unmade(results: Results) -> Iterator[Bar]:
    """What was begun and came to nothing is missed: a scenario whose runs all failed proves nothing."""
    good = {(_key(row), row["plan"]["policy"]) for row in results.good}
    begun = {_key(row): row for row in results.rows if row["plan"]["policy"] in (OURS, "near_only")}
    for key, row in begun.items():
        for policy in (OURS, "near_only"):
            if (key, policy) not in good:
                yield f"{_what(row)}: a run of {policy} that counts", "1", "0", False


def _key(row: Row) -> tuple[Any, ...]:
    """What a run shares with the run of near_only it is compared with."""
    plan = row["plan"]
    return tuple(value for name, value in sorted(plan.items()) if name != "policy")


def _pairs(rows: Iterable[Row]) -> list[Pair]:
    """Our policy and near_only of the same weather."""
    rows = list(rows)
    near = {_key(row): row for row in rows if row["plan"]["policy"] == "near_only"}
    return [(row, near[_key(row)]) for row in rows if row["plan"]["policy"] == OURS and _key(row) in near]


def _bars(pairs: Sequence[Pair]) -> Iterator[Bar]:
    for ours, near in pairs:
        name = _what(ours)
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
        closed = sum(ours["f1"] - near["f1"] for ours, near in pairs) / gap if gap > 0 else 0.0
        yield (
            "gap from near to far without a network closed, all runs",
            f"≥ {GAP:.0%}",
            f"{closed:.1%}",
            closed >= GAP,
        )
        ratio = fmean(ours["cpu_ms_per_frame"] / near["cpu_ms_per_frame"] for ours, near in pairs)
        yield "CPU of the agent against near_only, mean", f"≤ {CPU_RATIO}", f"{ratio:.2f}", ratio <= CPU_RATIO


def _returns(name: str, row: Row) -> Iterator[Bar]:
    scenario = BY_NAME[row["plan"]["scenario"]]
    if scenario.name in WITHOUT_RETURN:
        return
    most_ms = LONG_RETURN_MS
    if row["connections"] == 1:
        most_ms = SHORT_RETURN_MS + scenario.up["delay_ms"] + scenario.down["delay_ms"]
    found = row["far_again_ms"]
    for back_ms in [*found, *[None] * (len(scenario.bad) - len(found))]:
        good = back_ms is not None and back_ms <= most_ms
        yield f"{name}: first far answer after it", f"≤ {most_ms:g} ms", f"{back_ms} ms", good


def _table_row(row: Row, near: Row | None) -> str:
    plan = row["plan"]
    ratio = "" if near is None else f"{row['cpu_ms_per_frame'] / near['cpu_ms_per_frame']:.2f}"
    age = row["staleness_ms"]
    cells = [
        _scenario(plan),
        f"{plan['deadline_ms']} ms",
        plan["policy"],
        f"{100 * row['on_time']:.2f} %",
        str(row["left_out"]),
        f"{100 * row['on_time_all']:.2f} %",
        f"{row['f1']:.3f}",
        f"{_share(row, 'far'):.2f}",
        f"{row['kb_per_frame']:.1f}",
        f"{row['cpu_ms_per_frame']:.1f}",
        ratio,
        f"{age.get('p50', 0):.0f}/{age.get('p95', 0):.0f}",
        _list(row["over_budget_after_ms"], lambda v: f"{v:.0f}"),
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


def _scenario(plan: Row) -> str:
    return str(plan["scenario"]) + (" (the model itself)" if plan["worker"] == "real" else "")


def _what(row: Row) -> str:
    return f"{_scenario(row['plan'])}, {row['plan']['deadline_ms']} ms"


def _name(row: Row) -> str:
    plan = row["plan"]
    return f"{_scenario(plan)}, {plan['policy']}, {plan['deadline_ms']} ms"
