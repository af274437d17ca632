"""The frames of a camera that does not say how many it gives are counted, in a second."""

import numpy as np
import pytest

from edge.capture.base import Shape
from nearfar.doctor.finding import Level
from nearfar.doctor.streams import count
from pipelines.errors import Fatal

PICTURE = np.zeros((240, 320, 3), np.uint8)
CAMERA = "streams.door.source={kind: camera, url: 'http://127.0.0.1:1/cam'%s}"


class Clock:
    """Moved by what waits for a frame."""

    def __init__(self):
        self.now_s = 0.0

    def __call__(self):
        return self.now_s

    def camera(self, *periods_s, then=None):
        """Frames after each of the periods, the last period again and again; `then` is raised or returned instead."""
        waits = iter(periods_s)
        last = periods_s[-1]

        def read():
            period_s = next(waits, None)
            if period_s is None and then is not None:
                raise then
            self.now_s += last if period_s is None else period_s
            return PICTURE

        return read


def test_frames_are_counted_without_those_a_camera_had_kept():
    clock = Clock()
    kept = [0.0] * 12
    assert count(clock.camera(*kept, 0.04), until_s=9.0, clock_s=clock) == pytest.approx(25.0)
    assert clock.now_s == pytest.approx(1.3, abs=0.05)


def test_a_count_ends_with_its_time_and_too_few_frames_are_no_rate():
    clock = Clock()
    assert count(clock.camera(2.0), until_s=9.0, clock_s=clock) == 0.0
    clock = Clock()
    assert count(clock.camera(0.1), until_s=0.2, clock_s=clock) == 0.0
    clock = Clock()
    assert count(clock.camera(0.1, 0.1, then=Fatal("gone")), until_s=9.0, clock_s=clock) == 0.0


class Silent:
    """A camera that says no rate, gives `frames` pictures and ends."""

    def __init__(self, frames):
        self._left = frames

    def open(self):
        return Shape(width_px=320, height_px=240, fps=0.0)

    def read(self):
        self._left -= 1
        return PICTURE if self._left >= 0 else None

    def close(self):
        pass


def test_a_rate_nobody_knows_is_asked_for_and_one_in_the_file_is_taken(patient, monkeypatch):
    monkeypatch.setattr("nearfar.doctor.streams.SOURCES.build", lambda _: Silent(1))
    found = patient.examined(CAMERA % "", "links={}")
    assert found["stream door"].level is Level.OK
    assert "write streams.door.source.fps" in found["stream door"].words
    assert found["cpu"].level is Level.SKIPPED
    assert "write fps on the source" in found["cpu"].words
    found = patient.examined(CAMERA % ", fps: 12", "links={}")
    assert "12 frames/s" in found["stream door"].words
    assert found["cpu"].level is Level.OK


def test_a_counted_rate_is_held_against_the_near_model(patient, monkeypatch):
    monkeypatch.setattr("nearfar.doctor.streams.SOURCES.build", lambda _: Silent(1))
    monkeypatch.setattr("nearfar.doctor.streams.count", lambda _read, *, until_s: 20.0 if until_s else 0.0)
    found = patient.examined(CAMERA % "", "links={}")
    assert "20 frames/s (counted)" in found["stream door"].words
    assert "for 20 frames/s" in found["cpu"].words
