"""Answers in the order of their frames: what waits, for how long, and what is late."""

from hypothesis import given
from hypothesis import strategies as st

from edge.sinks.resequencer import MOST_SKIPPED, Resequencer
from tests.support.answers import answer


def seqs(answers):
    return [a.id.seq for a in answers]


def add(order, *numbers, deadline_us=100):
    for number in numbers:
        order.add(answer(number), deadline_us=deadline_us)


def test_answers_in_order_go_at_once():
    order = Resequencer()
    add(order, 1, 2)
    assert seqs(order.take(0)) == [1, 2]
    assert order.due_us() is None


def test_an_early_answer_waits_for_the_missing_one():
    order = Resequencer()
    add(order, 2)
    assert order.take(0) == []
    assert order.due_us() == 100
    add(order, 1)
    assert seqs(order.take(0)) == [1, 2]
    assert order.late == 0


def test_an_early_answer_waits_until_its_own_deadline_and_the_missing_one_is_then_late():
    order = Resequencer()
    add(order, 2, deadline_us=100)
    add(order, 4, deadline_us=150)
    assert seqs(order.take(99)) == []
    assert seqs(order.take(100)) == [2]
    add(order, 1, 3)
    assert seqs(order.take(100)) == [1, 3, 4]
    assert order.late == 1


def test_frames_that_get_no_answer_are_not_waited_for():
    order = Resequencer()
    add(order, 3)
    order.skip("door", 2)
    assert order.take(0) == []
    order.skip("door", 1)
    assert seqs(order.take(0)) == [3]


def test_streams_do_not_wait_for_each_other():
    order = Resequencer()
    add(order, 2)
    yard = answer(1)
    order.add(answer(1, id=yard.id.__class__("gw", bytes(16), "yard", 1)), deadline_us=100)
    assert [a.id.stream for a in order.take(0)] == ["yard"]


def test_at_the_end_everything_goes_in_order():
    order = Resequencer()
    add(order, 5, 3, 4)
    assert seqs(order.take_all()) == [3, 4, 5]


def test_a_stream_without_answers_keeps_a_bounded_memory_of_what_was_skipped():
    order = Resequencer()
    for seq in range(2, 2 * MOST_SKIPPED):  # frame 1 is missing for ever
        order.skip("door", seq)
    add(order, 2 * MOST_SKIPPED)
    assert seqs(order.take(0)) == [2 * MOST_SKIPPED]


@given(st.permutations(range(1, 13)), st.sets(st.integers(1, 12)), st.lists(st.integers(0, 12), max_size=12))
def test_whatever_comes_nothing_is_kept_back_and_only_late_answers_are_out_of_order(
    arrivals, unanswered, looks
):
    order = Resequencer()
    out = []
    for now_us, seq in enumerate(arrivals):
        if seq in unanswered:
            order.skip("door", seq)
        else:
            order.add(answer(seq), deadline_us=seq)
        if now_us in looks:
            out += seqs(order.take(now_us))
    out += seqs(order.take_all())
    assert sorted(out) == sorted(set(arrivals) - unanswered)
    behind = sum(1 for place, seq in enumerate(out) if seq < max(out[:place], default=0))
    assert behind == order.late
