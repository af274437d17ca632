"""Threads of a worker: what is left open fits the cores, what is written out stands and is said to be too much."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud.models.thread_plan import Wanted, plan_threads


def model(
    name: str = "m", instances: int = 1, threads: int | None = None, *, computes: bool = True
) -> Wanted:
    return Wanted(name=name, instances=instances, threads=threads, computes=computes)


@pytest.mark.parametrize(
    ("budget", "models", "threads", "decode"),
    [
        (1, [model()], [1], 0),
        (2, [model()], [1], 1),
        (4, [model()], [3], 1),
        (8, [model(instances=2)], [3], 1),
        (2, [model(instances=2)], [1], 0),
        (8, [model("a"), model("b", instances=2)], [2, 2], 1),
        (8, [model("a", threads=4), model("b")], [4, 3], 1),
        (4, [model("timer", instances=9, computes=False)], [1], 1),
    ],
)
def test_what_is_left_open_is_shared_and_fits(budget, models, threads, decode) -> None:
    plan = plan_threads(budget, models, decode=None)
    assert list(plan.threads.values()) == threads
    assert (plan.decode, plan.warning) == (decode, "")


def test_what_is_written_out_stands_and_is_said_to_be_too_much() -> None:
    plan = plan_threads(2, [model("faces", instances=2, threads=3)], decode=4)
    assert (plan.threads, plan.decode) == ({"faces": 3}, 4)
    assert "10 threads want a core at once (faces: 2 × 3, decoding: 4) and there are 2" in plan.warning


def test_more_instances_than_cores_are_said_to_be_too_much() -> None:
    assert "3 threads want a core at once" in plan_threads(2, [model(instances=3)], decode=None).warning


MODELS = st.lists(
    st.builds(
        Wanted,
        name=st.uuids().map(str),
        instances=st.integers(1, 5),
        threads=st.one_of(st.none(), st.integers(1, 9)),
        computes=st.booleans(),
    ),
    min_size=1,
    max_size=4,
)


@given(budget=st.integers(1, 64), models=MODELS, decode=st.one_of(st.none(), st.integers(0, 8)))
def test_a_plan_fits_or_says_that_it_does_not(budget, models, decode) -> None:
    plan = plan_threads(budget, models, decode=decode)
    used = sum(m.instances * plan.threads[m.name] for m in models if m.computes) + plan.decode
    assert (used > budget) == bool(plan.warning)
    assert all(plan.threads[m.name] == (m.threads or plan.threads[m.name]) >= 1 for m in models)
    assert decode is None or plan.decode == decode
