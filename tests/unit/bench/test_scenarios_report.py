"""The report of the scenarios benchmark: what it makes of runs, and which bars it says were missed."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.bench.scenarios import report
from tests.bench.scenarios.one_run import Plan
from tests.bench.scenarios.results import Results


def row(policy: str, **changes: Any) -> dict[str, Any]:
    plan = Plan(scenario="rtt_step", policy=policy, deadline_ms=100, frames=1000, fps=15.0, cc="cubic")
    return {
        "plan": plan.as_dict(),
        "discarded": "",
        "on_time": 1.0,
        "on_time_all": 0.999,
        "left_out": 5,
        "captured": 1000,
        "f1": 0.9,
        "far_free_f1": 0.96,
        "by": {"far": 600, "near": 400},
        "kb_per_frame": 10.0,
        "cpu_ms_per_frame": 12.0,
        "staleness_ms": {"p50": 50.0, "p95": 90.0},
        "over_budget_after_ms": [400.0],
        "far_again_ms": [250.0],
        "share_regained": [1.0],
        "late_far": 3,
        "rejected": {"expired": 2},
        "not_in_the_cloud": 0,
        "connections": 1,
    } | changes


def test_a_run_that_is_there_is_not_made_again_and_one_that_was_disturbed_is(tmp_path: Path) -> None:
    results = Results(tmp_path / "runs.jsonl")
    plan = Plan(**row("deadline")["plan"])
    for _ in range(2):
        assert results.wants(plan, repeats=2)
        results.add(row("deadline", discarded="the relay was 2.0 ms late"))
    assert results.wants(plan, repeats=2)
    results.add(row("deadline"))
    again = Results(tmp_path / "runs.jsonl")
    assert not again.wants(plan, repeats=2)
    assert (len(again.good), len(again.discarded)) == (1, 2)


def test_a_line_that_was_cut_off_by_a_crash_is_as_if_it_was_not_there(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text(json.dumps(row("deadline")) + '\n{"plan": {"scen')
    results = Results(path)
    assert len(results.rows) == 1
    results.add(row("near_only"))
    assert len(Results(path).rows) == 2


def test_bars_hold_where_we_are_no_worse_than_near_and_close_the_gap(tmp_path: Path) -> None:
    results = Results(tmp_path / "runs.jsonl")
    results.add(row("near_only", f1=0.79, cpu_ms_per_frame=10.0))
    assert not report.held(results), "nothing to compare"
    results.add(row("deadline"))
    assert report.held(results)
    assert (
        "| rtt_step | 100 ms | deadline | 100.00 % | 5 | 99.90 % | 0.900 | 0.60 | 10.0 | 12.0 | 1.20 |"
        in report.markdown(results)
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"on_time": 0.9985}, "on time | ≥ 99.90 % | 99.85 % | **missed**"),
        ({"f1": 0.78}, "F1 | ≥ 0.790 | 0.780 | **missed**"),
        ({"far_again_ms": [None]}, "≤ 320 ms | None ms | **missed**"),
        ({"far_again_ms": [330.0]}, "≤ 320 ms | 330.0 ms | **missed**"),
        ({"far_again_ms": []}, "≤ 320 ms | None ms | **missed**"),
        ({"far_again_ms": [1501.0], "connections": 2}, "≤ 1500 ms | 1501.0 ms | **missed**"),
        ({"far_free_f1": 0.7}, "closed, all runs | ≥ 60% | 0.0% | **missed**"),
        ({"not_in_the_cloud": 2}, "answers not in the cloud's store | 0 | 2 | **missed**"),
        ({"cpu_ms_per_frame": 14.0}, "≤ 1.3 | 1.40 | **missed**"),
    ],
)
def test_a_bar_that_is_missed_is_said_to_be(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    results = Results(tmp_path / "runs.jsonl")
    results.add(row("near_only", f1=0.79, cpu_ms_per_frame=10.0))
    results.add(row("deadline", **changes))
    assert words in report.markdown(results)
    assert not report.held(results)


@pytest.mark.parametrize("spoilt", [{"failed": "TimeoutError: no ready line"}, {"discarded": "2.0 ms late"}])
@pytest.mark.parametrize("policy", ["deadline", "near_only"])
def test_a_scenario_whose_runs_all_came_to_nothing_is_missed(
    tmp_path: Path, policy: str, spoilt: dict[str, Any]
) -> None:
    results = Results(tmp_path / "runs.jsonl")
    figures = {"near_only": {"f1": 0.79, "cpu_ms_per_frame": 10.0}, "deadline": {}}
    for name, found in figures.items():
        results.add(row(name, **found))
    assert report.held(results)
    for name, found in figures.items():
        results.add(at_75_ms(row(name, **(spoilt if name == policy else found))))
    assert f"rtt_step, 75 ms: a run of {policy} that counts | 1 | 0 | **missed**" in report.markdown(results)
    assert not report.held(results)
    results.add(at_75_ms(row(policy, **figures[policy])))
    assert report.held(results)


def at_75_ms(made: dict[str, Any]) -> dict[str, Any]:
    return made | {"plan": made["plan"] | {"deadline_ms": 75}}


def test_a_scenario_without_a_bar_on_the_return_is_named_with_the_reason(tmp_path: Path) -> None:
    results = Results(tmp_path / "runs.jsonl")
    results.add(row("deadline", far_again_ms=[None]))
    results.rows[0]["plan"]["scenario"] = "worker_slow"
    assert "- worker_slow: a slow worker answers on" in report.markdown(results)
    assert "first far answer after it |" not in report.markdown(results)
