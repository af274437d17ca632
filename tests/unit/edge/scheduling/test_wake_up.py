"""How late the machine is: one stall changes little, a machine that is late again and again is not waited on."""

from edge.scheduling.wake_up import PRIOR_COMMIT_US, WakeUp

DEADLINE_US, MARGIN_US = 100_000, 4_000


def woken(*lateness_us: int) -> WakeUp:
    wake_up = WakeUp(deadline_us=DEADLINE_US, margin_us=MARGIN_US)
    for us in lateness_us:
        wake_up.woke_late(us)
    return wake_up


def test_on_a_punctual_machine_an_answer_is_held_until_a_commit_before_the_margin():
    assert woken(*[200] * 500).hold_us == MARGIN_US + PRIOR_COMMIT_US


def test_one_stall_shortens_no_hold_by_more_than_the_margin_may_grow():
    assert woken(*[200] * 100, 900_000).hold_us <= DEADLINE_US // 10 + PRIOR_COMMIT_US


def test_a_machine_that_stalls_again_and_again_holds_nothing_longer_than_its_stalls_allow():
    wake_up = woken(*[*[200] * 100, 45_000] * 10)
    assert wake_up.hold_us >= 45_000
    assert wake_up.margin_us <= DEADLINE_US // 10


def test_a_machine_that_became_quiet_holds_as_long_as_before():
    assert woken(*[45_000] * 50, *[200] * 2_000).hold_us == MARGIN_US + PRIOR_COMMIT_US


def test_a_very_first_wake_up_says_nothing_yet():
    assert woken(60_000).hold_us <= DEADLINE_US // 10 + PRIOR_COMMIT_US
