"""Old pictures are told from fresh ones by the camera's own times, or by the burst in which they come."""

import random

import pytest

from edge.capture.pts_clock import PtsClock
from edge.capture.staleness import Staleness

MAX_STALE_US = 50_000
PERIOD_US = 40_000


def judge_all(pictures, staleness=None):
    """`pictures`: (arrived_us, pts_us | None) each; the ages."""
    staleness = staleness or Staleness(max_stale_us=MAX_STALE_US)
    return [staleness.judge(arrived_us=arrived, pts_us=pts) for arrived, pts in pictures]


def steady(count, *, start_us=0, period_us=PERIOD_US, pts=True, jitter_us=0, seed=3):
    """A camera that keeps its pace, `jitter_us` at most on the way."""
    dice = random.Random(seed)
    return [
        (
            start_us + i * period_us + round(dice.random() * jitter_us),
            (7_000_000 + i * period_us) if pts else None,
        )
        for i in range(count)
    ]


def held_up(pictures, *, first, until_us, gap_us=3_000):
    """The same, but what should arrive between picture `first` and `until_us` comes in a burst at `until_us`."""
    out, next_us = [], until_us
    for i, (arrived, pts) in enumerate(pictures):
        if i < first or arrived >= next_us:
            out.append((arrived, pts))
        else:
            out.append((next_us, pts))
            next_us += gap_us
    return out


@pytest.mark.parametrize("pts", [True, False], ids=["with times", "without"])
def test_a_steady_camera_is_never_stale_whatever_the_jitter(pts):
    ages = judge_all(steady(2_000, pts=pts, jitter_us=35_000))
    assert not any(age.stale for age in ages)


def age_us(clock, arrived_us, pts_us):
    return clock.age_us(arrived_us=arrived_us, pts_us=pts_us)


def test_the_age_of_a_late_picture_is_measured_once_the_times_are_trusted():
    pictures = steady(200)
    arrived, pts = pictures[150]
    pictures[150] = (arrived + 30_000, pts)
    ages = judge_all(pictures)
    assert (ages[150].age_us, ages[150].stale) == (30_000, False)
    assert all(age.age_us == 0 for i, age in enumerate(ages) if i != 150)


def test_what_a_camera_kept_during_a_stall_is_stale_and_the_first_fresh_picture_is_not():
    """F13"""
    pictures = held_up(steady(300), first=150, until_us=150 * PERIOD_US + 1_000_000)
    ages = judge_all(pictures)
    late = [arrived - i * PERIOD_US for i, (arrived, _) in enumerate(pictures)]
    assert [age.stale for age in ages] == [by > MAX_STALE_US for by in late]
    assert [age.age_us for age in ages[140:]] == late[140:]
    assert sum(age.stale for age in ages) > 20


def test_without_times_a_burst_after_a_pause_is_stale_but_for_its_first_picture():
    pictures = held_up(steady(300, pts=False), first=150, until_us=150 * PERIOD_US + 1_000_000)
    burst = [i for i in range(151, 300) if pictures[i][0] - pictures[i - 1][0] < PERIOD_US / 2]
    ages = judge_all(pictures)
    assert [i for i, age in enumerate(ages) if age.stale] == burst
    assert len(burst) > 20


def test_without_times_a_pause_after_which_nothing_is_caught_up_sheds_nothing():
    pictures = steady(100, pts=False) + steady(100, start_us=100 * PERIOD_US + 3_000_000, pts=False)
    assert not any(age.stale for age in judge_all(pictures))


def test_pictures_kept_while_the_connection_was_opened_are_stale():
    pictures = held_up(steady(100), first=0, until_us=400_000)
    ages = judge_all(pictures)
    assert not ages[0].stale  # nobody can know yet
    assert all(age.stale for age in ages[1:10])
    assert not any(age.stale for age in ages[12:])


def test_pictures_that_share_one_time_do_not_hide_a_burst():
    pictures = held_up(steady(100), first=0, until_us=400_000)
    pictures[1] = (pictures[1][0], pictures[0][1])
    ages = judge_all(pictures)
    assert all(age.stale for age in ages[2:10])


def test_a_camera_that_becomes_faster_is_shed_for_two_seconds_at_most():
    slow, begun_us = steady(50, pts=False), 50 * PERIOD_US + 500_000
    fast = steady(400, start_us=begun_us, period_us=10_000, pts=False)
    ages = judge_all(slow + fast)
    fresh_after = next(i for i, age in enumerate(ages[52:]) if not age.stale)
    assert fresh_after * 10_000 <= 2_000_000
    assert not any(age.stale for age in ages[52 + fresh_after :])


@pytest.mark.parametrize("pace", [0.4, 0.97, 1.03, 2.5])
def test_times_that_do_not_keep_pace_with_arrivals_are_not_believed(pace):
    pictures = [(arrived, round(pts * pace)) for arrived, pts in steady(1_000)]
    ages = judge_all(pictures)
    assert not any(age.age_us for age in ages)
    # Times that run fast look like a burst while nothing else is known, for two seconds at most.
    assert not any(age.stale for age, (arrived, _) in zip(ages, pictures, strict=True) if arrived > 2_000_000)


def test_times_that_lose_their_pace_later_are_no_longer_believed():
    clock = PtsClock()
    good = steady(200)
    ages = [age_us(clock, *picture) for picture in good]
    assert ages[-1] == 0
    last_us, last_pts = good[-1]
    slow = [(last_us + i * PERIOD_US, last_pts + round(i * PERIOD_US * 0.98)) for i in range(1, 600)]
    ages = [age_us(clock, *picture) for picture in slow]
    assert ages[-1] is None


def test_a_camera_that_starts_its_times_over_is_tried_anew():
    clock = PtsClock()
    for picture in steady(200):
        age_us(clock, *picture)
    assert clock.trusted
    again = [(arrived, pts - 7_000_000) for arrived, pts in steady(200, start_us=200 * PERIOD_US)]
    assert age_us(clock, *again[0]) is None
    assert [age_us(clock, *picture) for picture in again[1:]][-1] == 0


def test_a_jump_of_the_times_ahead_makes_nothing_stale():
    pictures = steady(300)
    pictures = pictures[:150] + [(arrived, pts + 90_000_000) for arrived, pts in pictures[150:]]
    assert not any(age.stale for age in judge_all(pictures))


def test_times_that_were_disproved_are_tried_again_when_the_camera_starts_over():
    clock = PtsClock()
    wrong = [(arrived, round(pts * 1.005)) for arrived, pts in steady(1_000)]
    assert [age_us(clock, *picture) for picture in wrong][-1] is None
    right = [(arrived, pts - 7_000_000) for arrived, pts in steady(300, start_us=1_000 * PERIOD_US)]
    assert [age_us(clock, *picture) for picture in right][-1] == 0


def test_a_clock_200_ppm_off_and_jitter_make_nothing_stale_in_an_hour():
    dice = random.Random(1)
    staleness = Staleness(max_stale_us=MAX_STALE_US)
    period_us = 500_000
    for i in range(7_200):
        arrived_us = i * period_us + round(dice.random() * 40_000)
        assert not staleness.judge(arrived_us=arrived_us, pts_us=round(i * period_us * 1.0002)).stale
