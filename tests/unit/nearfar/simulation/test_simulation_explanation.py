"""Where a policy lost against the oracle: the causes add up to what it lost."""

import pytest

from nearfar.simulation.explanation import explain, table
from nearfar.simulation.oracle import Oracle
from nearfar.simulation.summary import on_time_f1
from tests.support.simulated import S, link, run, scenario


@pytest.mark.parametrize("policy", ["deadline", "threshold"])
def test_the_causes_add_up_to_what_was_lost(policy):
    world = scenario(link(mbit=4, jitter_us=20_000, outage=(8 * S, 10 * S)))
    outcome, oracle = run(world, policy), Oracle(world).best()
    lost = on_time_f1(list(oracle.ends.values()), world) - on_time_f1(list(outcome.ends.values()), world)
    causes = explain(outcome, oracle, world)
    assert sum(cause.frames for cause in causes) == len(outcome.ends)
    assert lost > 0.0
    assert sum(cause.lost for cause in causes) == pytest.approx(lost, abs=1e-9)


def test_a_frame_kept_from_a_lost_link_is_named_so_and_reasons_that_differ_in_a_figure_are_one():
    world = scenario(link(rtt_steps=((6 * S, 200.0), (7 * S, 230.0), (12 * S, 30.0))))
    outcome, oracle = run(world, "threshold"), Oracle(world).best()
    names = [cause.name for cause in explain(outcome, oracle, world)]
    assert "not sent: round trip" in names
    assert len(names) == len(set(names))
    assert not [name for name in names if "ms" in name]


def test_the_table_shows_each_cause_as_a_share_of_the_gap():
    world = scenario(link(mbit=4))
    causes = explain(run(world, "near_only"), Oracle(world).best(), world)
    rows = table(causes, gap=causes[0].lost).splitlines()
    assert rows[1].endswith("100.0 %")
