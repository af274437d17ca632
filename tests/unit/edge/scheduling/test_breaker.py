"""The breaker: when a link is left, when it is asked, when it is trusted again."""

from copy import deepcopy
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from edge.scheduling.far.breaker import VANISH, Breaker
from edge.scheduling.far.pings import PING_EVERY_US

MS = 1000


def healthy(now_us: int = 0, *, metered: bool = False) -> Breaker:
    breaker = Breaker(fall_back_above_us=100 * MS, return_below_us=50 * MS, metered=metered)
    breaker.welcomed(now_us)
    breaker.round_trip(20 * MS, now_us, live=False)
    return breaker


def probes_to_return(breaker: Breaker, now_us: int) -> int:
    for n in range(1, 40):
        breaker.probe_sent(n, now_us)
        if breaker.probe_ended(n, rtt_us=20 * MS, now_us=now_us):
            return n
    raise AssertionError("never back")


def tripped(breaker: Breaker, now_us: int) -> Breaker:
    for _ in range(2):
        breaker.round_trip(200 * MS, now_us, live=False)
    assert not breaker.in_budget
    return breaker


def test_one_slow_round_trip_is_no_trend_and_two_of_three_are():
    breaker = healthy()
    breaker.round_trip(200 * MS, 1, live=False)
    assert breaker.in_budget
    breaker.round_trip(20 * MS, 2, live=False)
    breaker.round_trip(200 * MS, 3, live=False)
    assert (breaker.in_budget, breaker.reason) == (False, "round trip 200 ms")


def test_an_overdue_frame_and_a_missed_ping_together_end_offloading_at_once():
    breaker = healthy()
    assert breaker.ping_due(10 * MS) is not None
    breaker.frame_overdue(90 * MS)
    assert breaker.in_budget
    breaker.check(110 * MS)
    breaker.frame_overdue(120 * MS)
    assert breaker.reason == "frames and pings unanswered"


def test_a_link_over_budget_is_asked_twice_as_often_unless_it_is_metered():
    for metered, every_us in ((False, PING_EVERY_US // 2), (True, PING_EVERY_US)):
        breaker = tripped(healthy(metered=metered), 0)
        assert breaker.ping_due(PING_EVERY_US) is not None
        assert breaker.ping_due(PING_EVERY_US + every_us - 1) is None
        assert breaker.ping_due(PING_EVERY_US + every_us) is not None


def test_own_bytes_ahead_of_a_ping_excuse_it():
    breaker = healthy()
    breaker.ping_due(10 * MS, excused_us=80 * MS)
    breaker.check(150 * MS)
    assert breaker.pings.missed == 0
    breaker.check(190 * MS)
    assert breaker.pings.missed == 1


def test_two_probes_bring_a_link_back_and_flapping_doubles_them_for_five_seconds():
    breaker = tripped(healthy(), 1_000 * MS)
    assert probes_to_return(breaker, 2_000 * MS) == 2
    tripped(breaker, 3_000 * MS)
    assert probes_to_return(breaker, 3_100 * MS) == 4
    tripped(breaker, 3_500 * MS)
    assert probes_to_return(breaker, 3_600 * MS) == 8
    tripped(breaker, 4_000 * MS)
    assert probes_to_return(breaker, 9_100 * MS) == 2


def test_a_probe_that_is_slow_or_lost_starts_the_count_again():
    breaker = tripped(healthy(), 1_000 * MS)
    breaker.probe_sent("a", 1_200 * MS)
    breaker.probe_ended("a", rtt_us=20 * MS, now_us=1_220 * MS)
    breaker.probe_sent("b", 1_400 * MS)
    breaker.probe_ended("b", rtt_us=None, now_us=1_500 * MS)
    assert probes_to_return(breaker, 1_600 * MS) == 2


def test_probes_go_one_at_a_time_and_five_a_second_at_most():
    breaker = tripped(healthy(), 1_000 * MS)
    breaker.round_trip(60 * MS, 1_150 * MS, live=False)
    assert not breaker.probe_due(1_150 * MS)
    assert breaker.probe_due(1_200 * MS)
    breaker.probe_sent("a", 1_200 * MS)
    breaker.round_trip(60 * MS, 1_450 * MS, live=False)
    assert not breaker.probe_due(1_450 * MS)
    breaker.probe_ended("a", rtt_us=60 * MS, now_us=1_460 * MS)
    assert breaker.probe_due(1_460 * MS)


def test_a_silent_link_asks_for_a_fresh_connection_every_half_second():
    breaker = healthy()
    asked = []
    for now_us in range(0, 3_000 * MS, 10 * MS):
        breaker.ping_due(now_us)
        if breaker.check(now_us) is not None:
            asked.append(now_us)
    assert breaker.reason == "link silent"
    assert 500 * MS <= asked[0] <= 900 * MS
    assert {b - a for a, b in pairwise(asked)} == {500 * MS}


def test_vanishing_frames_keep_their_name_when_the_link_then_falls_silent():
    breaker = healthy()
    breaker.frames_vanish(10 * MS)
    assert breaker.check(10 * MS) == VANISH
    for now_us in range(20 * MS, 2_000 * MS, 10 * MS):
        breaker.ping_due(now_us)
        breaker.check(now_us)
    assert breaker.reason == VANISH


def test_a_metered_link_is_asked_every_five_seconds_once_it_was_bad_for_ten():
    breaker = tripped(healthy(metered=True), 1_000 * MS)
    sent = [t for t in range(1_000 * MS, 41_000 * MS, 10 * MS) if breaker.ping_due(t) is not None]
    early = [t for t in sent if t < 10_500 * MS]
    late = [t for t in sent if t > 11_500 * MS]
    assert {b - a for a, b in pairwise(early)} == {PING_EVERY_US}
    assert {b - a for a, b in pairwise(late)} == {5_000 * MS}


def test_frames_sent_over_budget_bring_the_link_back_as_probes_do_and_those_from_before_do_not():
    breaker = tripped(healthy(), 700 * MS)
    for _ in range(3):
        breaker.frame_answered(rtt_us=20 * MS, sent_us=650 * MS, now_us=800 * MS)
    assert not breaker.in_budget
    for _ in range(2):
        breaker.frame_answered(rtt_us=20 * MS, sent_us=750 * MS, now_us=800 * MS)
    assert breaker.in_budget


def test_a_link_outside_the_band_is_alive_until_a_ping_is_late():
    breaker = tripped(healthy(), 100 * MS)
    assert breaker.alive
    assert breaker.ping_due(300 * MS) is not None
    breaker.check(401 * MS)
    assert not breaker.alive


def test_a_link_never_measured_and_one_on_which_frames_vanish_are_not_alive():
    fresh = Breaker(fall_back_above_us=100 * MS, return_below_us=50 * MS)
    fresh.welcomed(0)
    assert not fresh.alive
    breaker = healthy()
    breaker.frames_vanish(MS)
    assert not breaker.alive


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 300_000)), max_size=40))
def test_when_it_has_to_be_asked_again_is_never_remembered_wrongly(steps: list[tuple[int, int]]) -> None:
    breaker = healthy()
    fresh = deepcopy(breaker)  # the same, never asked before
    now_us = 1_000_000
    for what, after_us in steps:
        now_us += after_us
        for one in (breaker, fresh):
            match what:
                case 0 | 1:
                    nonce = one.ping_due(now_us)
                    if nonce is not None and what == 0 and one.pings.answered(nonce, now_us):
                        one.round_trip(after_us, now_us, live=False)
                case 2:
                    one.check(now_us)
                case 3:
                    one.frame_overdue(now_us)
                case 4:
                    one.frames_vanish(now_us)
                case 5:
                    one.round_trip(after_us, now_us, live=True)
                case 6:
                    one.lost(now_us, "reset")
                case 7:
                    one.welcomed(now_us)
                case _:
                    one.probe_sent(now_us, now_us)
                    one.probe_ended(now_us, rtt_us=after_us // 10, now_us=now_us)
        assert breaker.next_us() == deepcopy(fresh).next_us()
