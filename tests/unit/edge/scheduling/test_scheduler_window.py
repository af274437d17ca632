"""The window a worker tells: frames under way on a link never exceed the last one that was heard."""

from pipelines.result import Load
from protos.wire.session import Credit
from tests.support.virtual import LINK, MS, World, world

EVERY_US = 10 * MS


def most_under_way(w: World, frames: int, first_seq: int) -> int:
    """The most frames that were under way at a time while these came, every 10 ms."""
    most = 0
    for seq in range(first_seq, first_seq + frames):
        w.frame(seq)
        w.run_until(w.now_us + 2 * MS + 1)  # encoded and sent
        most = max(most, len(w.way.flights))
        w.run_until(w.now_us + EVERY_US - 2 * MS - 1)
    return most


def test_a_smaller_window_told_by_a_reply_holds_from_then_on_and_a_larger_one_is_used() -> None:
    w = world()
    w.rtt_us = lambda _: 40 * MS
    w.worker_us = lambda _: 1 * MS
    assert most_under_way(w, 60, 1) >= 3
    w.wire.window_frames = 1
    most_under_way(w, 20, 61)  # the word is on its way
    assert most_under_way(w, 60, 81) == 1
    assert w.late() == []
    w.wire.window_frames = 8
    most_under_way(w, 20, 141)
    assert most_under_way(w, 60, 161) >= 3


def test_a_window_told_by_a_pong_holds_and_words_without_one_change_nothing() -> None:
    w = world()
    w.rtt_us = lambda _: 40 * MS
    w.worker_us = lambda _: 1 * MS
    most_under_way(w, 60, 1)
    w.run_until(w.now_us + 500 * MS)
    w.scheduler.pong(
        LINK, 0, resident_us=0, load=Load(), credit=Credit(frames=2, bytes=1 << 20), now_us=w.now_us
    )
    assert most_under_way(w, 60, 61) == 2
