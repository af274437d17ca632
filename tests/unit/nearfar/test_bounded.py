"""A step that does not come back keeps nobody: it is left behind in time, and told."""

import threading

import pytest

from nearfar.bounded import LateError, StoppedError, anything_hangs, unless_stopped, within
from pipelines.detectors.base import Cancelled
from pipelines.errors import ConfigError
from tests.support.eventually import eventually


def fail() -> None:
    raise ConfigError("no such model")


def test_a_step_gives_its_value_or_its_error():
    assert within(5, lambda: 7, what="it") == 7
    with pytest.raises(ConfigError, match="no such model"):
        within(5, fail, what="it")


def test_a_time_out_of_the_step_itself_is_its_own_and_not_ours():
    def slow() -> None:
        raise TimeoutError("the camera was slow")

    with pytest.raises(TimeoutError, match="the camera was slow"):
        within(5, slow, what="it")


def test_a_step_that_hangs_is_left_behind_and_named():
    release = threading.Event()
    with pytest.raises(LateError, match=r"the model gave no answer within 0\.05 s"):
        within(0.05, lambda: release.wait(10), what="the model")
    assert anything_hangs()
    release.set()
    eventually(lambda: not anything_hangs(), what="its end")


def test_a_limit_is_told_in_a_figure_people_read():
    release = threading.Event()
    with pytest.raises(LateError, match=r"within 0\.012 s$"):
        within(0.012345678, lambda: release.wait(10), what="it")
    release.set()


def test_a_start_that_fails_is_told_and_one_that_ends_gives_what_it_made():
    stop = threading.Event()
    with pytest.raises(ConfigError, match="no such model"):
        unless_stopped(stop, fail)
    assert unless_stopped(stop, lambda: "an agent") == "an agent"


def test_a_start_that_hangs_is_left_when_a_stop_comes():
    stop, release = threading.Event(), threading.Event()
    stop.set()
    try:
        with pytest.raises(StoppedError):
            unless_stopped(stop, lambda: release.wait(10))
    finally:
        release.set()


def test_a_start_that_can_be_cancelled_is_given_the_time_to_say_so():
    stop, cancelled = threading.Event(), threading.Event()
    stop.set()

    def give_in() -> None:
        cancelled.wait(10)
        raise Cancelled("while loading")

    threading.Timer(0.05, cancelled.set).start()
    with pytest.raises(Cancelled):
        unless_stopped(stop, give_in, patience_s=10)
