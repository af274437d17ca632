"""A connection that is waited for no longer than one wants."""

import threading

from edge.sinks.dial import Dial
from tests.support.eventually import eventually


def test_what_it_came_to_is_there_when_it_is_over() -> None:
    over = threading.Event()
    dial = Dial(lambda: None, over=over.set, hang_up=lambda: None)
    assert over.wait(5.0)
    assert (dial.ended, dial.take_error()) == (True, None)


def test_an_error_is_kept_for_who_waits() -> None:
    wrong = OSError("no route")

    def fail() -> None:
        raise wrong

    dial = Dial(fail, over=lambda: None, hang_up=lambda: None)
    eventually(lambda: dial.ended, what="the end")
    assert dial.take_error() is wrong
    assert dial.take_error() is None


def test_a_connection_that_comes_when_nobody_waits_any_more_is_hung_up() -> None:
    go, hung_up, over = threading.Event(), threading.Event(), threading.Event()
    dial = Dial(lambda: go.wait(5.0), over=over.set, hang_up=hung_up.set)
    dial.give_up()
    assert not hung_up.is_set()
    go.set()
    assert over.wait(5.0)
    assert hung_up.is_set()


def test_one_given_up_after_it_was_made_is_hung_up_at_once() -> None:
    hung_up = threading.Event()
    dial = Dial(lambda: None, over=lambda: None, hang_up=hung_up.set)
    eventually(lambda: dial.ended, what="the end")
    dial.give_up()
    assert hung_up.is_set()
