"""How long near takes: believed soon, alarmed by no single stall."""

from hypothesis import given
from hypothesis import strategies as st

from edge.scheduling.near.estimate import CLAMP, NearEstimate
from edge.scheduling.quantile_window import QuantileWindow
from pipelines.windows import quantile


def taught(*runs_us: int) -> NearEstimate:
    estimate = NearEstimate(20_000)
    for run_us in runs_us:
        estimate.observe(run_us)
    return estimate


def test_before_the_first_run_the_prior_serves_with_some_air():
    assert 20_000 < NearEstimate(20_000).guard_us <= 25_000


def test_one_stall_of_the_machine_lengthens_the_guard_to_no_more_than_three_medians():
    assert taught(*[20_000] * 100, 900_000).guard_us == CLAMP * 20_000


def test_a_gateway_that_became_slow_is_believed_after_eight_runs():
    assert taught(*[20_000] * 500, *[60_000] * 8).guard_us >= 60_000


def test_a_tail_of_many_runs_needs_no_extra_caution():
    assert taught(*[20_000] * 100).guard_us == 20_000


@given(
    values=st.lists(st.integers(0, 100), min_size=1, max_size=60),
    size=st.integers(1, 20),
    q=st.floats(0, 1),
)
def test_a_window_kept_in_order_has_the_quantiles_of_its_last_values(values, size, q):
    window = QuantileWindow(size)
    for value in values:
        window.add(value)
    assert window.quantile(q) == quantile(sorted(values[-size:]), q)
    assert len(window) == min(size, len(values))
