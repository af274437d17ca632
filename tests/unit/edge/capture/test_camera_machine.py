"""A camera may be absent, hang, freeze and come back: what its watchdog decides, moment by moment."""

import pytest

from edge.backoff import Backoff
from edge.capture.base import Shape
from edge.capture.camera_machine import (
    LASTS_US,
    MOST_HANGING,
    CameraMachine,
    Connect,
    LetGo,
    Patience,
    Publish,
    Say,
    Shed,
)
from edge.capture.state import StreamState

OPEN_US, STALL_US, MAX_STALE_US = 10_000_000, 2_000_000, 50_000
PERIOD_US = 40_000
FIRST_US, MOST_US = 500_000, 5_000_000
BEGIN_US = 1_000_000_000


class Story:
    """A machine and its clock; `decided` is everything since the beginning."""

    def __init__(self):
        self.now_us = BEGIN_US
        self.decided = []
        self.machine = CameraMachine(
            patience=Patience(open_us=OPEN_US, stall_us=STALL_US, max_stale_us=MAX_STALE_US),
            expected=Shape(width_px=640, height_px=360, fps=15.0),
            backoff=Backoff(first_us=FIRST_US, most_us=MOST_US),
            now_us=BEGIN_US,
        )
        self.look()

    def _took(self, decisions):
        self.decided += decisions
        return list(decisions)

    def look(self):
        return self._took(self.machine.look(self.now_us))

    def to_next(self):
        """Jump to the moment something is due, and look."""
        due_us = self.machine.due_us
        assert due_us is not None
        self.now_us = max(self.now_us, due_us)
        return self.look()

    def give(self, number, *, after_us=PERIOD_US, size_px=(64, 48), pts_us=None):
        self.now_us += after_us
        return self._took(self.machine.given(number, size_px=size_px, pts_us=pts_us, now_us=self.now_us))

    def lose(self, number, reason="the camera answers 503"):
        return self._took(self.machine.lost(number, reason, self.now_us))

    def connected(self):
        return [decision.number for decision in self.decided if isinstance(decision, Connect)]

    def words(self):
        return [decision.words for decision in self.decided if isinstance(decision, Say)]

    @property
    def status(self):
        return self.machine.status(frames=0)


@pytest.fixture
def story():
    return Story()


@pytest.fixture
def running(story):
    """The first connection gives pictures."""
    story.give(1)
    return story


def test_a_camera_is_connecting_with_its_expected_shape_until_a_picture_comes(story):
    """F16"""
    assert story.connected() == [1]
    assert (story.status.state, story.status.since_us) == (StreamState.CONNECTING, BEGIN_US)
    assert story.machine.shape == Shape(width_px=640, height_px=360, fps=15.0)
    story.machine.opened(1, Shape(width_px=64, height_px=48, fps=25.0))
    assert story.status.state is StreamState.CONNECTING
    running, published = story.give(1)
    assert running == Say(words="running, 64x48 pictures", warn=False)
    assert published == Publish(0)
    assert (story.status.state, story.status.since_us) == (StreamState.RUNNING, story.now_us)
    assert story.machine.shape == Shape(width_px=64, height_px=48, fps=25.0)


def test_a_camera_that_refuses_is_tried_for_ever_with_backoff(story):
    waits = []
    for number in range(1, 9):
        story.lose(number)
        assert (story.status.state, story.status.reason) == (
            StreamState.CONNECTING,
            "the camera answers 503",
        )
        waits.append(story.machine.due_us - story.now_us)
        assert story.to_next() == [Connect(number + 1)]
    assert waits == [500_000, 1_000_000, 2_000_000, 4_000_000, *[MOST_US] * 4]
    story.give(9)
    assert (story.status.reason, story.status.reconnects) == ("", 8)
    story.lose(9, "the connection ended")
    assert story.machine.due_us == story.now_us + FIRST_US, "a picture makes it quick again"


def test_a_dropped_connection_is_opened_anew(running):
    """F13"""
    running.lose(1, "the connection ended")
    assert (running.status.state, running.status.reason) == (StreamState.STALLED, "the connection ended")
    assert running.to_next() == [Connect(2)]
    running.give(2)
    assert running.status.state is StreamState.RUNNING


def test_a_camera_that_never_opens_is_left_behind_when_its_time_is_over(story):
    """F28"""
    assert story.machine.due_us == BEGIN_US + OPEN_US
    left, said = story.to_next()
    assert left == LetGo(1)
    assert "no picture within 10 s of connecting" in said.words
    assert story.status.hanging == 1
    assert story.to_next() == [Connect(2)]


def test_a_frozen_camera_is_said_to_be_stalled_and_opened_anew(running):
    """F13"""
    assert running.machine.due_us == running.now_us + STALL_US
    left, said = running.to_next()
    assert left == LetGo(1)
    assert said == Say(words="stalled: no fresh picture for 2 s; it is opened anew until pictures come")
    assert running.to_next() == [Connect(2)]
    running.give(2)
    assert running.status.hanging == 1
    assert running.lose(1, "freed") == []
    assert (running.status.state, running.status.hanging) == (StreamState.RUNNING, 0)


def test_a_connection_left_behind_gives_no_more_frames_when_it_comes_back(running):
    running.to_next()
    assert running.give(1) == [LetGo(1)]
    running.to_next()
    assert running.give(1) == [LetGo(1)]
    running.machine.opened(1, Shape(width_px=1, height_px=1, fps=1.0))
    assert running.machine.shape.width_px == 64


def test_none_is_begun_beside_as_many_that_hang_until_one_of_them_comes_back(story):
    """F28"""
    for _ in range(2 * MOST_HANGING - 1):
        story.to_next()
    assert story.machine.due_us is None
    assert story.connected() == list(range(1, MOST_HANGING + 1))
    story.now_us += 3600 * 10**6
    story.look()
    assert story.look() == []
    assert (story.status.hanging, len(story.connected())) == (MOST_HANGING, MOST_HANGING)
    assert "3 earlier connections hang in the decoder" in story.status.reason
    assert story.lose(2, "freed") == []
    assert story.to_next() == [Connect(MOST_HANGING + 1)]


def test_a_camera_that_is_read_too_slowly_is_opened_anew_and_the_lack_of_speed_is_said(story):
    pts_us, verdicts = 0, []
    for number in range(300):
        pts_us += PERIOD_US
        slow_us = PERIOD_US // 2 if number >= 250 else 0  # from here on each takes half a period too long
        verdicts += story.give(1, after_us=PERIOD_US + slow_us, pts_us=pts_us)
        if story.now_us + 2 * PERIOD_US > story.machine.due_us:
            break
    shed = [verdict.age_us for verdict in verdicts if isinstance(verdict, Shed)]
    assert len(shed) > 20
    assert shed == sorted(shed)
    assert shed[0] > MAX_STALE_US
    assert story.status.stale == len(shed)
    left, said = story.to_next()
    assert left == LetGo(1)
    assert "pictures come, but none fresh for 2 s: each is more than 50 ms old" in said.words
    assert "too slowly; ask the camera for smaller or fewer pictures" in said.words
    story.to_next()
    story.to_next()
    assert "no picture within" in story.status.reason, "the second one gave nothing at all"


def test_pictures_of_a_new_size_are_followed_and_said(running):
    said, published = running.give(1, size_px=(8, 6))
    assert said == Say(words="pictures are 8x6 from now on", warn=False)
    assert isinstance(published, Publish)
    assert (running.status.width_px, running.status.height_px) == (8, 6)


def test_each_trouble_is_said_once_and_so_is_its_end(story):
    for number in range(1, 5):
        story.lose(number)
        story.to_next()
    story.give(5)
    story.lose(5, "the connection ended")
    story.to_next()
    story.give(6)
    assert [words.split(",")[0].split(";")[0] for words in story.words()] == [
        "connecting: the camera answers 503",
        "running again",
        "stalled: the connection ended",
        "running again",
    ]
    assert story.words()[1].endswith("after 7.5 s without")


def test_a_camera_that_comes_and_goes_is_tried_less_and_less_often_and_hardly_spoken_of(running):
    waits = []
    for number in range(1, 40):
        if number > 1:
            running.give(number)
        running.give(number)
        running.lose(number, "the connection ended")
        waits.append(running.machine.due_us - running.now_us)
        running.to_next()
    assert waits[:4] == [500_000, 1_000_000, 2_000_000, 4_000_000]
    assert set(waits[4:]) == {MOST_US}
    minutes = (running.now_us - BEGIN_US) / 60e6
    assert 2 < minutes < 4
    assert len(running.words()) <= 4 + minutes
    assert "times its pictures did not last" in running.words()[-1]


def test_pictures_that_last_make_a_camera_that_came_and_went_quick_again_and_it_is_said(running):
    for number in range(1, 9):
        running.give(number, after_us=PERIOD_US)
        running.give(number)
        running.lose(number, "the connection ended")
        running.to_next()
    for _ in range(LASTS_US // PERIOD_US + 1):
        running.give(9)
    assert running.words()[-1] == "running steadily again, 64x48 pictures"
    running.lose(9, "the connection ended")
    assert running.machine.due_us == running.now_us + FIRST_US


def test_an_address_that_gives_one_picture_and_closes_is_called_a_snapshot(running):
    for number in (1, 2, 3):
        if number > 1:
            running.give(number)
        running.lose(number, "the connection ended")
        running.to_next()
    (words,) = [words for words in running.words() if "snapshot" in words]
    assert words == (
        "stalled: it gives one picture and closes: this looks like a snapshot address; "
        "ask the camera for its stream's; it is opened anew until pictures come "
        "(2 times its pictures did not last)"
    )


def test_a_camera_that_sends_what_is_no_picture_is_not_called_silent(running):
    running.now_us = running.machine.due_us
    running.decided += running.machine.look(running.now_us, skipped=53)
    assert running.status.reason == ("no fresh picture for 2 s: 53 parts came, none was a whole JPEG picture")


@pytest.mark.parametrize("state", ["connecting", "refused", "running", "stalled"])
def test_stop_ends_it_in_every_state_and_nothing_is_decided_after_it(story, state):
    if state == "refused":
        story.lose(1)
    elif state != "connecting":
        story.give(1)
        if state == "stalled":
            story.to_next()
    held = state in ("connecting", "running")
    assert story.machine.stop(story.now_us) == ((LetGo(1),) if held else ())
    assert story.machine.over
    assert story.status.state is StreamState.ENDED
    assert story.machine.due_us is None
    assert story.machine.stop(story.now_us) == ()
    story.now_us += 3600 * 10**6
    assert story.look() == []
    assert story.give(1) == [LetGo(1)]
    assert story.lose(1) == []
