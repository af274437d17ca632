"""When a frame's head goes ahead of its body, and when both travel in one message."""

from edge.links.head_start import APART_EVERY, QUICK_FRAMES, WORTH_US, HeadStart


def quick() -> HeadStart:
    made = HeadStart()
    made.welcomed(takes_frames=True)
    for _ in range(QUICK_FRAMES):
        assert made.apart()
        made.seen(WORTH_US - 1)
    return made


def test_heads_go_ahead_until_a_few_of_them_have_gained_nothing() -> None:
    assert not quick().apart()


def test_every_eighth_frame_goes_apart_so_that_a_slower_network_is_noticed() -> None:
    start = quick()
    assert [start.apart() for _ in range(2 * APART_EVERY)] == [*[False] * (APART_EVERY - 1), True] * 2


def test_one_head_that_gained_time_sends_all_ahead_again() -> None:
    start = quick()
    start.seen(WORTH_US)
    assert [start.apart() for _ in range(20)] == [True] * 20


def test_a_worker_that_did_not_say_that_it_takes_frames_in_one_message_is_sent_none() -> None:
    start = HeadStart()
    for _ in range(20):
        assert start.apart()
        start.seen(1)


def test_a_frame_in_one_message_tells_nothing() -> None:
    start = HeadStart()
    start.welcomed(takes_frames=True)
    for _ in range(100):
        start.seen(0)
    assert start.apart()
