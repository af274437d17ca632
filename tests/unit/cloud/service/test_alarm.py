"""Whoever ends what expired sleeps until something does, and is woken for what comes meanwhile and ends sooner."""

import threading

from cloud.backlog.alarm import LATE_US, Alarm
from tests.support.eventually import eventually


def test_it_sleeps_until_the_first_frame_expires_but_never_longer_than_most() -> None:
    alarm = Alarm()
    assert alarm.set(1000, soonest_us=None, most_us=50_000) == 50_000
    assert alarm.set(1000, soonest_us=31_000, most_us=50_000) == 30_000
    assert alarm.set(1000, soonest_us=91_000, most_us=50_000) == 50_000


def test_frames_that_expire_within_the_time_it_may_be_late_share_one_look() -> None:
    alarm = Alarm()
    assert alarm.set(1000, soonest_us=1001, most_us=50_000) == LATE_US
    assert alarm.set(1000, soonest_us=0, most_us=50_000) == LATE_US


def _sleeper(alarm: Alarm) -> threading.Thread:
    sleeper = threading.Thread(target=alarm.wait, args=(60_000_000,))
    sleeper.start()
    return sleeper


def test_only_what_ends_before_it_would_wake_wakes_it() -> None:
    alarm = Alarm()
    alarm.set(0, soonest_us=None, most_us=50_000)
    sleeper = _sleeper(alarm)
    alarm.expires(50_000)
    alarm.expires(50_000 - LATE_US)
    assert sleeper.is_alive()
    assert alarm.until_us == 50_000
    alarm.expires(20_000)
    eventually(lambda: not sleeper.is_alive(), what="a woken sleeper")
    sleeper.join()


def test_what_comes_between_the_look_and_the_sleep_is_not_slept_over() -> None:
    alarm = Alarm()
    alarm.set(0, soonest_us=None, most_us=50_000)
    alarm.expires(10_000)
    sleeper = _sleeper(alarm)
    eventually(lambda: not sleeper.is_alive(), what="a sleeper that does not sleep")
    sleeper.join()
