"""What the agent says of its link: every change once, in words; nothing while it stays as it is."""

import logging
from collections.abc import Sequence

import pytest

from edge.far.words import EVERY_US, START_US, LinkWords
from tests.support.run_records import sight

LOOK_US = 50_000
UP = {"connected": True, "in_budget": True, "reason": ""}
DOWN = {"connected": False, "in_budget": False, "reason": "no route to host"}
SLOW = {"connected": True, "in_budget": False, "reason": "round trip 340 ms"}


class Said:
    """What was logged: (level, words)."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self.caplog = caplog

    def so_far(self) -> list[tuple[int, str]]:
        return [(level, words) for _, level, words in self.caplog.record_tuples]

    def words(self) -> list[str]:
        return [words for _, words in self.so_far()]

    def clear(self) -> None:
        self.caplog.clear()


class Story:
    def __init__(self, *, near: bool = True) -> None:
        self.now_us = 1_000_000
        self.words = LinkWords(near=near)
        self.others: Sequence[str] = ()

    def stays(self, seconds: float, **state) -> None:
        for _ in range(round(seconds * 1e6) // LOOK_US):
            self.words.saw(sight(link="lte", **state), self.now_us, carried_by=self.others)
            self.now_us += LOOK_US


@pytest.fixture
def said(caplog):
    caplog.set_level(logging.INFO, logger="edge.far.words")
    return Said(caplog)


def test_a_link_that_goes_down_stays_down_and_returns_has_one_line_for_each_change(said):
    """F01"""
    story = Story()
    story.stays(5, **UP)
    said.clear()
    story.stays(12.3, **DOWN)
    story.stays(60, **UP)
    assert said.so_far() == [
        (logging.WARNING, "link lte: no connection: no route to host; near answers, it is tried again"),
        (logging.WARNING, "link lte: back after 12.3 s"),
        (logging.INFO, "link lte: in budget"),
    ]


def test_a_worker_that_was_never_there_is_said_once_after_two_seconds(said):
    story = Story()
    story.stays(START_US / 1e6, **DOWN)
    assert said.words() == []
    story.stays(60, **DOWN)
    (words,) = said.words()
    assert words.startswith("link lte: no connection")


def test_a_worker_that_is_there_at_once_is_no_warning(said):
    story = Story()
    story.stays(0.5, **DOWN)
    story.stays(0.5, **SLOW)
    story.stays(30, **UP)
    assert said.so_far() == [
        (logging.INFO, "link lte: connected"),
        (logging.INFO, "link lte: in budget"),
    ]


def test_a_link_that_is_too_slow_is_said_with_what_was_measured_and_so_is_its_end(said):
    story = Story()
    story.stays(1, **UP)
    said.clear()
    story.stays(8, **SLOW)
    story.stays(8, **UP)
    assert said.words() == [
        "link lte: over budget: round trip 340 ms; near answers, it is measured on",
        "link lte: in budget again after 8.0 s",
    ]


def test_over_a_slow_link_that_is_alive_it_is_said_that_some_frames_still_go(said):
    for near, rest in ((True, "near answers the rest"), (False, "the rest is missed")):
        story = Story(near=near)
        story.stays(1, **UP)
        said.clear()
        story.stays(1, **SLOW, selective=True)
        slow = "link lte: over budget: round trip 340 ms"
        assert said.words() == [f"{slow}; only frames that look worth it go, {rest}, it is measured on"]


def test_a_flapping_link_is_summed_up(said):
    story = Story()
    story.stays(1, **UP)
    said.clear()
    for _ in range(60):
        story.stays(0.5, **SLOW)
        story.stays(0.5, **UP)
    assert len(said.words()) <= 2 * 60e6 / EVERY_US
    assert any(words.endswith("(19 changes since the last line)") for words in said.words())


def test_without_a_near_model_nobody_is_told_that_near_answers(said):
    story = Story(near=False)
    story.stays(5, **DOWN)
    assert "frames are missed meanwhile" in said.words()[0]


def test_while_other_links_can_carry_the_frames_nobody_is_told_that_near_answers(said):
    story = Story()
    story.stays(1, **UP)
    said.clear()
    story.others = ["cable", "sat"]
    story.stays(1, **DOWN)
    story.others = ()
    story.stays(1, **UP)
    story.stays(1, **SLOW)
    assert said.words() == [
        "link lte: no connection: no route to host; cable and sat can carry the frames, it is tried again",
        "link lte: back after 1.0 s",
        "link lte: in budget",
        "link lte: over budget: round trip 340 ms; near answers, it is measured on",
    ]


def test_a_data_budget_that_is_used_up_is_said_once_and_so_is_its_end(said):
    story = Story()
    story.stays(3, **UP, budget_left_bytes=900)
    said.clear()
    story.stays(60, **UP, budget_left_bytes=90, budget_low=True)
    story.stays(5, **UP, budget_left_bytes=200)
    assert said.so_far() == [
        (logging.WARNING, "link lte: the data budget is used up; near answers until it refills"),
        (
            logging.WARNING,
            "link lte: frames may go again: the data budget has refilled after 60 s",
        ),
    ]


def test_a_link_whose_data_budget_is_used_up_is_not_said_to_be_over_another(said):
    story = Story()
    story.stays(3, **UP, budget_left_bytes=900)
    said.clear()
    story.stays(60, **SLOW, budget_left_bytes=90, budget_low=True)
    assert said.words() == ["link lte: the data budget is used up; near answers until it refills"]
    story.stays(1, **SLOW | {"reason": "link silent"}, budget_left_bytes=90, budget_low=True, silent=True)
    assert said.words()[1:] == ["link lte: over budget: link silent; near answers, it is measured on"]
