"""What a gateway makes of a worker that has no room."""

from edge.outbox.sending.intake_window import MOST, PAUSE_AT_MOST_US, PAUSE_US, IntakeWindow


def refused(window: IntakeWindow, *outs: int, now_us: int = 0) -> list[bool]:
    return [window.refuse(out, now_us) for out in outs]


def test_before_any_refusal_it_bounds_nothing() -> None:
    window = IntakeWindow()
    assert window.open(MOST + 10)
    assert [window.took() for _ in range(3)] == [False] * 3


def test_what_was_taken_of_a_burst_is_what_the_worker_has_room_for() -> None:
    window = IntakeWindow()
    refused(window, 11, 10, 9, 8)
    assert (window.size, window.refused) == (8, 4)
    assert (window.open(7), window.open(8)) == (True, False)


def test_one_may_always_go() -> None:
    window = IntakeWindow()
    refused(window, 1, 0)
    assert (window.size, window.open(0)) == (1, True)


def test_a_burst_of_refusals_is_one_reason_to_pause_and_one_piece_of_news() -> None:
    window = IntakeWindow()
    assert refused(window, 11, 10, 9) == [True, False, False]
    assert window.until_us == PAUSE_US


def test_who_is_refused_after_each_pause_asks_less_and_less_often_and_never_stops_asking() -> None:
    window = IntakeWindow()
    pauses = []
    for _ in range(8):
        now_us = window.until_us
        window.refuse(0, now_us)
        pauses.append(window.until_us - now_us)
    assert pauses[:5] == [PAUSE_US * 2**n for n in range(5)]
    assert pauses[-1] == PAUSE_AT_MOST_US


def test_it_opens_one_by_one_while_the_worker_takes_what_comes_and_is_whole_again_once() -> None:
    window = IntakeWindow()
    refused(window, 3)
    sizes = []
    while window.busy:
        whole = window.took()
        sizes.append(window.size)
        assert whole == (window.size == MOST)
    assert sizes[:8] == [3, 3, 4, 4, 4, 4, 5, 5]
    assert window.open(MOST + 10)
    assert not window.took()


def test_after_one_is_taken_the_next_pause_is_short_again() -> None:
    window = IntakeWindow()
    for _ in range(5):
        window.refuse(0, window.until_us)
    window.took()
    now_us = window.until_us
    window.refuse(0, now_us)
    assert window.until_us - now_us == PAUSE_US


def test_another_connection_begins_with_trust() -> None:
    window = IntakeWindow()
    refused(window, 2)
    window.another()
    assert (window.busy, window.until_us, window.size) == (False, 0, MOST)
    assert window.refused == 1, "what is counted stays"
