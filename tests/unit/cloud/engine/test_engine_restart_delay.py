"""How long a crashed engine waits: longer each time it crashes in a row."""

from cloud.engine.restart_delay import MOST_US, SOUND_AFTER_US, RestartDelay

SHORT_US = SOUND_AFTER_US - 1


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
