"""How long a run may take before it is held to hang: it follows from the runs that were seen."""

from cloud.engine.patience import LEAST_US, Patience


def test_before_the_first_run_it_may_take_as_long_as_a_start():
    assert Patience(fixed_us=None, first_us=9_000_000).limit_us == 9_000_000


def test_a_run_may_take_twenty_times_the_slowest_of_a_hundred_and_never_less_than_two_seconds():
    patience = Patience(fixed_us=None, first_us=1)
    patience.observe(10_000)
    assert patience.limit_us == LEAST_US
    patience.observe(400_000)
    assert patience.limit_us == 8_000_000


def test_one_slow_run_is_forgotten_after_many_quick_ones():
    patience = Patience(fixed_us=None, first_us=1)
    patience.observe(5_000_000)
    assert patience.limit_us == 100_000_000
    for _ in range(220):
        patience.observe(10_000)
    assert patience.limit_us == LEAST_US


def test_what_a_person_set_stays():
    patience = Patience(fixed_us=300_000, first_us=1)
    patience.observe(5_000_000)
    assert patience.limit_us == 300_000
