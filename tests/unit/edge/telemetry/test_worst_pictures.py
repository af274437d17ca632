"""Pictures of the worst frames: the right ten, small, for the eye, and never at the cost of a line."""

import cv2
import numpy as np
import pytest

from edge.telemetry.run_dir import RunDir
from edge.telemetry.worst import small_jpeg
from pipelines.result import AnsweredBy, Status
from tests.support.eventually import eventually
from tests.support.run_records import Clock, answer, frame_id, kept, picture


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def run_dir(tmp_path, clock):
    made = RunDir(tmp_path / "run", clock_us=clock)
    yield made
    assert made.close(5.0)


def decoded(data):
    shown = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    assert shown is not None
    return shown


def give(run_dir, seq, latency_us, **changes):
    """One answer with its picture, and wait until it is dealt with, so that none finds the room full."""
    run_dir.answered(
        answer(seq, by=AnsweredBy.FAR, latency_us=latency_us, on_time=latency_us <= 100_000, **changes),
        picture(),
    )
    eventually(lambda: run_dir.lines == seq and run_dir.pictures_waiting == 0, what="the picture")


def test_pictures_of_the_ten_worst_frames_are_kept_and_no_more(run_dir):
    for seq in range(1, 41):
        give(run_dir, seq, latency_us=40_000 + (seq * 7919) % 50_000)
    worst = sorted(range(1, 41), key=lambda seq: (seq * 7919) % 50_000)[-10:]
    assert kept(run_dir.path) == sorted(worst)
    assert run_dir.pictures_missed == 0


def test_a_missed_frame_is_worse_than_a_late_one_and_a_late_one_than_any_in_time(run_dir):
    give(run_dir, 1, latency_us=100_000)
    for seq in range(2, 12):
        give(run_dir, seq, latency_us=100_001)
    assert kept(run_dir.path) == list(range(2, 12))
    run_dir.answered(
        answer(12, by=AnsweredBy.MISSED, status=Status.TIMEOUT, detections=None, latency_us=99_000), picture()
    )
    run_dir.settled(frame_id(12))
    eventually(lambda: run_dir.lines == 12 and 12 in kept(run_dir.path), what="the missed frame")
    assert kept(run_dir.path) == [*range(2, 11), 12]  # of equals, the earlier stay


def test_a_picture_is_small_and_its_name_says_how_large_the_source_was(run_dir):
    run_dir.answered(answer(5, by=AnsweredBy.FAR), picture(1280, 720))
    assert run_dir.close(5.0)
    (path,) = (run_dir.path / "worst").iterdir()
    assert path.name == "door-5.1280x720.jpg"
    assert decoded(path.read_bytes()).shape == (270, 480, 3)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("channels", [(), (3,)])
@pytest.mark.parametrize("size", [(1, 1), (640, 512), (2000, 3)])
def test_thermal_and_grey_pictures_are_kept_for_the_eye(dtype, channels, size):
    width, height = size
    shown = decoded(small_jpeg(picture(width, height, dtype=dtype, channels=channels)))
    assert shown.shape[1] == min(480, width)
    assert shown.dtype == np.uint8
    assert shown.shape[2:] == (3,)


def test_a_flat_thermal_picture_is_no_division_by_zero():
    assert small_jpeg(np.full((8, 8), 30_000, np.uint16))[:2] == b"\xff\xd8"


def test_more_pictures_than_there_is_room_for_are_counted_and_hold_no_memory(tmp_path, clock):
    run_dir = RunDir(tmp_path, clock_us=clock, limit=0)
    for seq in range(1, 30):
        run_dir.answered(answer(seq), picture())
    assert run_dir.pictures_missed == 29
    assert run_dir.pictures_waiting == 0
    assert run_dir.close(5.0)


def test_a_disk_that_takes_no_pictures_costs_no_lines(run_dir):
    (run_dir.path / "worst").write_text("a file where the folder should be")
    run_dir.answered(answer(1, by=AnsweredBy.FAR), picture())
    run_dir.answered(answer(2, by=AnsweredBy.FAR))
    assert run_dir.close(5.0)
    assert (run_dir.lines, run_dir.pictures_missed) == (2, 1)


def test_a_picture_that_is_none_costs_no_line_and_not_the_next_picture(run_dir):
    odd = np.full((4, 1000, 3), None, object)
    run_dir.answered(answer(1, by=AnsweredBy.FAR), odd)
    run_dir.answered(answer(2, by=AnsweredBy.FAR), picture())
    assert run_dir.close(5.0)
    assert (run_dir.lines, run_dir.lost, run_dir.pictures_missed) == (2, 0, 1)
    assert kept(run_dir.path) == [2]
