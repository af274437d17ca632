"""Waits between attempts: doubled up to their bound, less a bit of chance, quick again after a success."""

from edge.backoff import Backoff


def test_waits_double_up_to_their_bound_and_start_anew_after_a_success():
    backoff = Backoff(first_us=100, most_us=1000)
    assert [backoff.next_us() for _ in range(6)] == [100, 200, 400, 800, 1000, 1000]
    backoff.reset()
    assert backoff.next_us() == 100


def test_chance_shortens_a_wait_by_no_more_than_its_share():
    lucky = Backoff(first_us=100, most_us=400, jitter=0.25, dice=lambda: 1.0)
    assert [lucky.next_us() for _ in range(4)] == [75, 150, 300, 300]
    unlucky = Backoff(first_us=100, most_us=400, jitter=0.25, dice=lambda: 0.0)
    assert [unlucky.next_us() for _ in range(4)] == [100, 200, 400, 400]


def test_a_bounded_wait_grows_no_other():
    made = Backoff(first_us=100, most_us=1600, jitter=0.5, dice=lambda: 1.0)
    assert [made.within_us(60), made.within_us(1000)] == [30, 50]
    assert [made.next_us(), made.next_us()] == [50, 100]
