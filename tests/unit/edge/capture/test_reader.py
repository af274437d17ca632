"""The reader: every frame gets its seq before it can be lost, moments do not drift, and stop always works."""

import threading
import time
from functools import partial
from typing import Any

import numpy as np
import pytest

from edge.capture.base import Shape
from edge.capture.publisher import Publisher
from edge.capture.reader import Reader
from edge.capture.slot import Slot
from edge.capture.state import StreamState
from pipelines.errors import ConfigError, Fatal
from pipelines.runtime import monotonic_us
from tests.support.eventually import eventually


class Clip:
    """`count` pictures (None: for ever) whose first pixel is their number; `breaks_at` raises instead."""

    def __init__(self, count=5, fps=1000.0, breaks_at=None, breaks_with=None, refuses=None):
        self.count, self.fps = count, fps
        self.breaks_at, self.breaks_with, self.refuses = breaks_at, breaks_with, refuses
        self.given = 0
        self.opened = 0
        self.closed = 0

    def open(self):
        if self.refuses:
            raise self.refuses
        self.opened += 1
        return Shape(width_px=4, height_px=2, fps=self.fps)

    def read(self):
        if self.given == self.breaks_at:
            raise self.breaks_with
        if self.count is not None and self.given >= self.count:
            return None
        self.given += 1
        return np.full((2, 4, 3), self.given % 256, np.uint8)

    def close(self):
        self.closed += 1

    def has_given(self, count):
        return self.given >= count


class Desk:
    """Everything a reader reports, in order."""

    def __init__(self):
        self.slot = Slot()
        self.events = []
        self.ends = []
        self.look = lambda seq: None  # at the moment a frame is said to be captured

    def publisher(self, **settings):
        defaults: dict[str, Any] = {"latency_us": 0, "clock_us": monotonic_us, "paced": True}
        return Publisher(
            stream="door",
            slot=self.slot,
            offered=lambda stream: self.events.append(("offered", stream)),
            overwritten=lambda frame: self.events.append(("overwritten", frame.seq)),
            stale=lambda frame: self.events.append(("stale", frame.seq)),
            captured=self.captured,
            unix_us=lambda: 1_700_000_000_000_000,
            **(defaults | settings),
        )

    def captured(self, stream, seq):
        self.events.append(("captured", seq))
        self.look(seq)

    def reader(self, source, pace="as_fast_as_possible", frames="latest", **settings):
        return Reader(
            source=source,
            publisher=self.publisher(paced=frames != "every", **settings),
            pace=pace,
            frames=frames,
            ended=lambda stream, error: self.ends.append((stream, error)),
            clock_us=monotonic_us,
        )

    def seqs(self, what):
        return [value for name, value in self.events if name == what]


@pytest.fixture
def desk():
    return Desk()


@pytest.fixture
def run():
    """Start readers; whatever a test does, they are stopped and gone after it."""
    readers = []

    def start(reader):
        readers.append(reader)
        reader.start()
        return reader

    yield start
    for reader in readers:
        assert reader.close(5.0)


def test_a_frame_is_counted_before_it_lies_in_the_slot_and_losers_are_reported(desk, run):
    run(desk.reader(Clip(count=3)))
    eventually(lambda: desk.ends, what="the end of the clip")
    assert desk.events == [
        ("captured", 1),
        ("offered", "door"),
        ("captured", 2),
        ("overwritten", 1),
        ("offered", "door"),
        ("captured", 3),
        ("overwritten", 2),
        ("offered", "door"),
    ]
    assert desk.ends == [("door", None)]
    last = desk.slot.take()
    assert (last.seq, last.paced, last.picture[0, 0, 0]) == (3, True, 3)


def test_a_frame_is_counted_before_anyone_can_take_it(desk, run):
    inside = []
    desk.look = lambda seq: inside.append((seq, getattr(desk.slot.peek(), "seq", None)))
    run(desk.reader(Clip(count=3)))
    eventually(lambda: desk.ends, what="the end of the clip")
    assert inside == [(1, None), (2, 1), (3, 2)]


def test_a_slow_consumer_never_holds_up_capture(desk, run):
    run(desk.reader(Clip(count=200)))  # nobody takes anything
    eventually(lambda: desk.ends, what="the end of the clip")
    assert desk.seqs("captured") == list(range(1, 201))
    assert desk.seqs("overwritten") == list(range(1, 200))


def test_stamps_are_made_at_publication_and_latency_lies_before_them(desk, run):
    run(desk.reader(Clip(count=1), latency_us=40_000, clock_us=lambda: 9_000_000))
    eventually(lambda: desk.ends, what="the end of the clip")
    frame = desk.slot.take()
    assert frame.available_us == 9_000_000
    assert frame.captured_us == 8_960_000
    assert frame.captured_unix_us == 1_700_000_000_000_000 - 40_000


def test_a_real_time_frame_is_never_published_before_it_is_due(desk, run):
    published = []
    reader = desk.reader(Clip(count=8, fps=100.0), pace="real_time")
    desk.look = lambda seq: published.append(monotonic_us())
    before = monotonic_us()
    run(reader)
    eventually(lambda: desk.ends, what="the end of the clip")
    assert len(published) == 8
    assert all(moment - before >= i * 10_000 for i, moment in enumerate(published))


def test_with_every_no_frame_is_displaced_and_each_is_stamped_unpaced_when_there_is_room(desk, run):
    run(desk.reader(Clip(count=20), frames="every"))
    taken = [eventually(desk.slot.take, what="the next frame") for _ in range(20)]
    eventually(lambda: desk.ends, what="the end of the clip")
    assert [f.seq for f in taken] == list(range(1, 21))
    assert [int(f.picture[0, 0, 0]) for f in taken] == list(range(1, 21))
    assert not any(f.paced for f in taken)
    assert desk.seqs("overwritten") == []


def test_with_every_a_frame_without_room_has_no_seq_yet(desk, run):
    clip = Clip(count=None)
    run(desk.reader(clip, frames="every"))
    eventually(lambda: clip.given == 2, what="the second picture decoded ahead")
    assert desk.seqs("captured") == [1]
    assert desk.slot.take().seq == 1
    eventually(lambda: desk.seqs("captured") == [1, 2], what="the second frame")


@pytest.mark.parametrize("settings", [{}, {"frames": "every"}, {"pace": "real_time"}])
def test_max_frames_ends_the_stream_after_exactly_as_many(desk, run, settings):
    run(desk.reader(Clip(count=None), max_frames=4, first_seq=257, **settings))

    def over():
        desk.slot.take()
        return desk.ends

    eventually(over, what="the end")
    assert desk.seqs("captured") == [257, 258, 259, 260]
    assert desk.ends == [("door", None)]


@pytest.mark.parametrize(
    "settings",
    [
        {"pace": "real_time"},  # waits for the moment of the next frame
        {"frames": "every"},  # waits for room
        {},  # reads without a pause
    ],
)
def test_stop_ends_the_thread_within_100_ms_whatever_it_waits_for(run, settings):
    took_s = []
    for _ in range(3):  # the best of three: a busy machine may hold up any one of them
        desk = Desk()
        source = Clip(count=None, fps=0.01)
        reader = run(desk.reader(source, **settings))
        eventually(partial(source.has_given, 2), what="a picture decoded ahead")
        asked = time.monotonic()
        assert reader.close(5.0)
        took_s.append(time.monotonic() - asked)
        assert desk.ends == [("door", None)]
        assert source.closed >= 1
    assert min(took_s) < 0.1


def test_a_clip_is_running_until_it_has_ended(desk, run):
    clip = Clip(count=2)
    reader = desk.reader(clip, frames="every")
    reader.open()
    assert reader.status().state is StreamState.CONNECTING
    run(reader)
    eventually(lambda: desk.seqs("captured") == [1], what="the first frame")
    assert reader.status().state is StreamState.RUNNING
    eventually(desk.slot.take, what="the first frame")
    eventually(lambda: desk.ends, what="the end of the clip")
    status = reader.status()
    assert (status.state, status.reason, status.frames) == (StreamState.ENDED, "", 2)
    assert (status.width_px, status.height_px) == (4, 2)


def test_a_clip_that_breaks_has_failed_and_says_why(desk, run):
    reader = run(desk.reader(Clip(breaks_at=0, breaks_with=Fatal("the disk is gone"))))
    eventually(lambda: desk.ends, what="the report")
    assert (reader.status().state, reader.status().reason) == (StreamState.FAILED, "the disk is gone")


def test_a_source_that_breaks_is_reported_with_its_words_after_the_frames_it_gave(desk, run):
    source = Clip(breaks_at=2, breaks_with=Fatal("the disk is gone"))
    run(desk.reader(source))
    eventually(lambda: desk.ends, what="the report")
    assert desk.ends == [("door", "the disk is gone")]
    assert desk.seqs("captured") == [1, 2]
    assert source.closed == 1


def test_a_source_that_raises_anything_else_is_reported_too(desk, run):
    run(desk.reader(Clip(breaks_at=0, breaks_with=ZeroDivisionError("oh"))))
    eventually(lambda: desk.ends, what="the report")
    assert desk.ends == [("door", "ZeroDivisionError: oh")]


def test_a_source_that_cannot_open_is_reported_by_the_thread_or_raised_to_who_opens_it(desk, run):
    refusal = ConfigError("no such camera")
    with pytest.raises(ConfigError):
        desk.reader(Clip(refuses=refusal)).open()
    run(desk.reader(Clip(refuses=refusal)))
    eventually(lambda: desk.ends, what="the report")
    assert len(desk.ends) == 1
    assert "no such camera" in desk.ends[0][1]


def test_a_source_opened_early_to_learn_its_shape_is_opened_once(desk, run):
    source = Clip()
    reader = desk.reader(source)
    assert reader.open() == Shape(width_px=4, height_px=2, fps=1000.0)
    run(reader)
    eventually(lambda: desk.ends, what="the end of the clip")
    assert source.opened == 1


def test_a_reader_that_never_started_gives_its_source_back(desk):
    source = Clip()
    reader = desk.reader(source)
    reader.open()
    assert reader.close()
    assert source.closed == 1
    assert desk.ends == []


def test_a_reader_hanging_in_its_source_does_not_hang_who_closes_it(desk):
    hanging = threading.Event()
    free = threading.Event()

    class Stuck(Clip):
        def read(self):
            hanging.set()
            free.wait(10)

    reader = desk.reader(Stuck())
    reader.start()
    assert hanging.wait(5)
    assert not reader.close(0.05)
    free.set()
    assert reader.close(5.0)
