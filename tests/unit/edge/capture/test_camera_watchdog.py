"""The threads of a watchdog: nobody waits for what hangs, and nothing but `stop` or the last frame ends it."""

import queue
import threading
from typing import Any

import numpy as np
import pytest

from edge.backoff import Backoff
from edge.capture.base import Shape
from edge.capture.camera_machine import MOST_HANGING, Patience
from edge.capture.connection import Connection
from edge.capture.publisher import Publisher
from edge.capture.slot import Slot
from edge.capture.state import StreamState
from edge.capture.watchdog import Watchdog
from pipelines.errors import Retryable
from pipelines.runtime import monotonic_us
from tests.support.eventually import eventually

PATIENCE = Patience(open_us=400_000, stall_us=200_000, max_stale_us=10_000_000)
GONE = None


class Camera:
    """One connection. What it does comes from outside: `opens` an exception, or set to open; then pictures."""

    def __init__(self):
        self.opens: queue.SimpleQueue[Exception | None] = queue.SimpleQueue()
        self.pictures: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.pts_us = None
        self.closed = False
        self.let = False

    def open(self):
        if (refusal := self.opens.get()) is not None:
            raise refusal
        return Shape(width_px=4, height_px=2, fps=25.0)

    def read(self):
        picture = self.pictures.get()
        if isinstance(picture, Exception):
            raise picture
        if isinstance(picture, tuple):
            picture, self.pts_us = picture
        return picture

    def let_go(self):
        self.let = True

    def close(self):
        self.closed = True

    def give(self, *, width=4, height=2, pts_us=None):
        self.pictures.put((np.zeros((height, width, 3), np.uint8), pts_us))

    def free(self):
        """Let whatever hangs in it come back."""
        self.opens.put(Retryable("freed"))
        self.pictures.put(GONE)


class House:
    """A watchdog, the cameras it was connected to so far, and what it reported."""

    def __init__(self):
        self.cameras = []
        self.events = []
        self.ends = []
        self.slot = Slot()
        self.watchdog: Any = None
        self.clock_us = monotonic_us
        self.gate = threading.Event()  # not set: whoever looks at a picture hangs
        self.gate.set()

    def connect(self):
        self.cameras.append(Camera())
        return self.cameras[-1]

    def start(self, *, patience=PATIENCE, expected=None, max_frames=None):
        publisher = Publisher(
            stream="door",
            slot=self.slot,
            latency_us=0,
            paced=True,
            offered=lambda stream: self.events.append("offered"),
            overwritten=lambda frame: self.events.append("overwritten"),
            stale=lambda frame: self.events.append("stale"),
            captured=lambda stream, seq: self.events.append(seq),
            clock_us=monotonic_us,
            unix_us=lambda: 0,
            turned_away=lambda frame: not self.gate.wait(10),
            max_frames=max_frames,
        )
        self.watchdog = Watchdog(
            connect=self.connect,
            publisher=publisher,
            patience=patience,
            expected=expected or Shape(width_px=0, height_px=0, fps=0.0),
            ended=lambda stream, error: self.ends.append((stream, error)),
            clock_us=self.clock_us,
            backoff=Backoff(first_us=5_000, most_us=20_000),
        )
        self.watchdog.start()
        return self.watchdog

    def camera(self, number):
        """The `number`-th connection, from 1, as soon as it is tried."""
        return eventually(
            lambda: len(self.cameras) >= number and self.cameras[number - 1], what=f"attempt {number}"
        )

    def wait_state(self, state, within_s=5.0):
        return eventually(
            lambda: self.watchdog.status().state is state and self.watchdog.status(),
            within_s,
            f"state {state}",
        )

    def run(self, number=1):
        """The `number`-th connection opens and gives a picture."""
        camera = self.camera(number)
        camera.opens.put(None)
        camera.give()
        self.wait_state(StreamState.RUNNING)
        return camera


@pytest.fixture
def house():
    made = House()
    yield made
    if made.watchdog is not None:
        made.watchdog.stop()
        for camera in made.cameras:
            camera.free()
        assert made.watchdog.close(5.0)


def test_starting_does_not_wait_for_a_camera_that_is_absent(house):
    """F16"""
    house.start(expected=Shape(width_px=640, height_px=360, fps=15.0))
    status = house.watchdog.status()
    assert (status.state, status.frames, status.reconnects) == (StreamState.CONNECTING, 0, 0)
    assert house.watchdog.shape == Shape(width_px=640, height_px=360, fps=15.0)


def test_a_camera_that_refuses_is_tried_again_until_it_does_not(house):
    house.start()
    for number in (1, 2, 3):
        house.camera(number).opens.put(Retryable("the camera answers 503"))
    house.camera(4)
    status = house.watchdog.status()
    assert (status.state, status.reason) == (StreamState.CONNECTING, "the camera answers 503")
    house.run(4)
    status = house.watchdog.status()
    assert (status.reason, status.reconnects, status.frames) == ("", 3, 1)
    assert all(camera.closed for camera in house.cameras[:3])


def test_a_frozen_camera_is_said_to_be_stalled_and_opened_anew(house):
    """F13"""
    house.start()
    frozen = house.run(1)
    house.wait_state(StreamState.STALLED)
    assert frozen.let
    house.run(2)
    assert house.watchdog.status().hanging == 1
    frozen.free()
    eventually(lambda: house.watchdog.status().hanging == 0, what="the frozen connection gone")
    assert frozen.closed


def test_a_connection_left_behind_gives_no_more_frames_when_it_comes_back(house):
    house.start()
    frozen = house.run(1)
    house.wait_state(StreamState.STALLED)
    house.run(2)
    frozen.give()
    eventually(lambda: frozen.closed, what="the frozen connection let go")
    assert house.watchdog.status().frames == 2


def test_a_connect_that_hangs_is_tried_again_beside_it_but_not_without_end(house):
    """F28"""
    house.start()
    house.camera(MOST_HANGING)
    eventually(
        lambda: house.watchdog.status().hanging == MOST_HANGING, what="as many hanging as there may be"
    )
    eventually(lambda: "hang in the decoder" in house.watchdog.status().reason, what="words about them")
    assert len(house.cameras) == MOST_HANGING
    house.cameras[0].free()
    house.camera(MOST_HANGING + 1)


@pytest.mark.parametrize("state", ["connecting", "refused", "running", "frozen", "stalled"])
def test_stop_works_in_every_state_whatever_hangs(house, state):
    """F28"""
    house.start(patience=Patience(open_us=60_000_000, stall_us=100_000, max_stale_us=10_000_000))
    camera = house.camera(1)
    if state == "refused":
        camera.opens.put(Retryable("404"))
        house.camera(2)
    elif state != "connecting":
        house.run(1)
        if state != "running":
            house.wait_state(StreamState.STALLED)
        if state == "stalled":
            house.camera(2)
    house.watchdog.close(0.0)  # nothing that hangs is waited for
    eventually(lambda: house.ends == [("door", None)], what="the end")
    assert house.watchdog.status().state is StreamState.ENDED


def test_the_last_frame_wanted_ends_the_stream(house):
    house.start(max_frames=3)
    camera = house.camera(1)
    camera.opens.put(None)
    for _ in range(5):
        camera.give()
    eventually(lambda: house.ends == [("door", None)], what="the end")
    assert house.watchdog.status().frames == 3


def test_a_source_that_raises_what_nobody_expects_is_opened_anew(house, caplog):
    house.start()
    house.run(1).pictures.put(ZeroDivisionError("oh"))
    house.run(2)
    assert "the source failed" in caplog.text


def test_a_connection_that_still_hangs_after_the_end_is_owned_up_to(house):
    house.start()
    camera = house.camera(1)
    assert not house.watchdog.close(0.05)
    camera.free()
    assert house.watchdog.close(5.0)


def test_whoever_asks_or_stops_does_not_wait_for_a_gate_that_hangs(house):
    house.start()
    house.gate.clear()
    try:
        house.camera(1).opens.put(None)
        house.camera(1).give()
        eventually(lambda: house.events == [1], what="the picture before its gate")
        assert house.watchdog.status().state is StreamState.RUNNING
        house.watchdog.stop()
        eventually(lambda: house.ends == [("door", None)], what="the end")
    finally:
        house.gate.set()


def test_a_fault_of_the_watchdog_itself_does_not_end_the_camera_as_if_all_were_well(house, caplog):
    faults = [ZeroDivisionError("oh")]

    def clock_us():
        if faults and threading.current_thread() is house.watchdog:
            raise faults.pop()
        return monotonic_us()

    house.clock_us = clock_us
    house.start()
    house.run(1)
    assert house.ends == []
    assert "stream door: its watchdog failed; it goes on" in caplog.text


def test_a_connection_that_cannot_even_begin_is_a_trouble_like_any_other(house, monkeypatch):
    start, refusals = Connection.start, [RuntimeError("can't start new thread")] * 2

    def sometimes(connection):
        if refusals:
            raise refusals.pop()
        start(connection)

    monkeypatch.setattr(Connection, "start", sometimes)
    house.start()
    house.run(1)
    status = house.watchdog.status()
    assert (status.reconnects, status.hanging) == (2, 0)


def test_a_source_that_cannot_be_closed_is_lost_all_the_same(house, monkeypatch):
    def stuck(_camera):
        raise OSError("the driver is gone")

    house.start()
    camera = house.run(1)
    monkeypatch.setattr(Camera, "close", stuck)
    camera.pictures.put(GONE)
    eventually(lambda: "the driver is gone" in house.watchdog.status().reason, what="the reason")
    monkeypatch.undo()
    house.run(2)
