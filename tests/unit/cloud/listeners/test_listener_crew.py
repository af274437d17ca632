"""Threads of a listener that take turns at reading."""

import threading
from collections.abc import Callable, Iterator

import pytest

from cloud.listeners import crew as crew_module
from cloud.listeners.crew import Crew
from tests.support.eventually import eventually


class Frame:
    """A frame that `does` something when it is run."""

    def __init__(self, does: Callable[[], object], *, quick: bool) -> None:
        self.quick = quick
        self._does = does

    def __call__(self) -> None:
        self._does()


class Reading:
    """What is read; says which threads read it, and lets the first one go once it is called `off`."""

    def __init__(self) -> None:
        self.by: list[str] = []
        self.begun = threading.Event()
        self.off = threading.Event()

    def __call__(self) -> None:
        self.by.append(f"{threading.get_ident()}")
        self.begun.set()
        self.off.wait(10.0)


@pytest.fixture
def crew() -> Iterator[Crew]:
    made = Crew("reads")
    yield made
    made.dismiss()
    eventually(lambda: not made.threads, what="everybody at home")


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that is busy with other things may hold up the quickest of frames for longer than it should take."""
    monkeypatch.setattr(crew_module, "OVERDUE_S", 0.5)


def test_while_a_slow_frame_is_run_another_thread_reads_on(crew: Crew) -> None:
    reading = Reading()
    frame = Frame(lambda: reading.begun.wait(5.0), quick=False)
    assert crew.run(frame, reading), "somebody else reads now"
    assert reading.begun.is_set()
    assert reading.by != [f"{threading.get_ident()}"]
    reading.off.set()


@pytest.mark.usefixtures("patient")
def test_a_quick_frame_wakes_nobody_to_read(crew: Crew) -> None:
    reading = Reading()
    ran: list[bool] = []
    for _ in range(5):
        assert not crew.run(Frame(lambda: ran.append(True), quick=True), reading)
    assert ran == [True] * 5
    assert not reading.by


def test_a_quick_frame_that_hangs_holds_up_no_reading(crew: Crew) -> None:
    reading = Reading()
    frame = Frame(lambda: reading.begun.wait(5.0), quick=True)
    assert crew.run(frame, reading), "somebody else reads now"
    assert len(reading.by) == 1
    reading.off.set()


@pytest.mark.usefixtures("patient")
def test_a_frame_that_fails_ends_no_thread_and_the_reading_is_still_anothers(
    crew: Crew, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise ZeroDivisionError("nobody foresaw this")

    reading = Reading()
    reading.off.set()
    assert crew.run(Frame(fail, quick=False), reading)
    eventually(reading.begun.is_set, what="somebody who reads on")
    assert not crew.run(Frame(fail, quick=True), reading)
    assert "nobody foresaw this" in caplog.text


def test_a_thread_that_comes_back_is_called_again_before_a_new_one_is_made(crew: Crew) -> None:
    for number in range(1, 4):
        reading = Reading()
        reading.off.set()
        assert crew.put_on(reading)
        eventually(reading.begun.is_set, what=f"reading {number}")
        eventually(lambda: crew.resting == 1, what="the thread back at rest")
    assert len(crew.threads) == 1


def test_a_dismissed_crew_calls_nobody(crew: Crew) -> None:
    reading = Reading()
    assert crew.put_on(reading)
    crew.dismiss()
    assert not crew.put_on(reading)
    assert not crew.run(Frame(lambda: None, quick=False), reading), "go on yourself"
    reading.off.set()
