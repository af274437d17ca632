"""How early a hedge starts: early enough for near's tail, and no earlier for what no start could help."""

from hypothesis import given
from hypothesis import strategies as st

from edge.scheduling.near.lead import RUNS, NearLead

FRAME_US = 100_000


def taught(*took_us: int, prior_us: int = 10_000) -> NearLead:
    lead = NearLead(prior_us)
    for us in took_us:
        lead.took(us, frame_us=FRAME_US)
    return lead


def test_before_the_first_run_twice_the_prior_fits():
    assert NearLead(20_000).lead_us >= 40_000


def test_the_longest_run_seen_always_fits():
    assert taught(*[10_000] * 300, 60_000, *[10_000] * 300).lead_us > 60_000


def test_few_runs_are_trusted_less_than_many():
    assert taught(*[10_000] * 10).lead_us > taught(*[10_000] * 100).lead_us > taught(*[10_000] * 900).lead_us


def test_a_detector_that_always_takes_the_same_starts_hardly_earlier_than_it_must():
    assert taught(*[10_000] * 200).lead_us <= 10_500


def test_a_run_longer_than_a_frame_has_time_starts_nothing_earlier():
    assert taught(*[10_000] * 50, FRAME_US, 900_000).lead_us == taught(*[10_000] * 50).lead_us


def test_a_run_that_was_stopped_was_longer_than_it_got():
    stopped, whole = taught(*[10_000] * 50), taught(*[10_000] * 50, 40_000)
    stopped.took(40_000, frame_us=FRAME_US, whole=False)
    assert stopped.lead_us > whole.lead_us


def test_a_tail_that_is_over_is_forgotten():
    assert taught(80_000, *[10_000] * RUNS).lead_us < 20_000


@given(st.lists(st.integers(1, FRAME_US - 1), min_size=1, max_size=100))
def test_whatever_was_seen_the_next_run_may_be_as_long_as_any_of_it(runs_us: list[int]):
    assert taught(*runs_us).lead_us >= max(runs_us)


def test_a_run_far_made_needless_still_says_that_near_takes_so_long():
    lead = taught(*[10_000] * 200)
    for _ in range(10):
        lead.not_needed(9_000, frame_us=FRAME_US)
    assert lead.lead_us <= 10_500
    lead.not_needed(30_000, frame_us=FRAME_US)
    assert lead.lead_us > 30_000


def test_a_needless_run_longer_than_a_frame_has_time_says_nothing():
    lead = taught(*[10_000] * 200)
    lead.not_needed(FRAME_US, frame_us=FRAME_US)
    assert lead.lead_us <= 10_500
