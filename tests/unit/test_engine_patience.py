"""How long a run may take, and how long a crashed engine waits: both follow from what was seen."""

from cloud.engine.patience import LEAST_US, MOST_US, SOUND_AFTER_US, Patience, RestartDelay

SHORT_US = SOUND_AFTER_US - 1


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


def test_a_first_crash_is_started_again_at_once_and_a_loop_of_them_ever_later():
    delay = RestartDelay()
    waits = [delay.after(0) for _ in range(8)]
    assert waits[:6] == [0, 200_000, 400_000, 800_000, 1_600_000, 3_200_000]
    assert waits[6:] == [MOST_US, MOST_US]
    assert [delay.after(SHORT_US) for _ in range(2000)][-1] == MOST_US


def test_an_engine_that_held_for_half_a_minute_is_started_again_at_once():
    delay = RestartDelay()
    for _ in range(5):
        delay.after(0)
    assert delay.after(SOUND_AFTER_US) == 0
    assert delay.in_a_row == 1
    assert delay.after(SHORT_US) == 200_000
