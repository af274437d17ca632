"""The run directory: one line per captured frame, whole, once, and never a wait for who writes it."""

import json
from dataclasses import replace

import cv2
import numpy as np
import pytest

from edge.frame_lines import answer_line, shed_line
from edge.link_log import LinkSight
from edge.run_dir import RunDir
from edge.worst import small_jpeg
from pipelines.errors import ConfigError
from pipelines.frame import Encoding, Frame, FrameId
from pipelines.result import Answer, AnsweredBy, Detections, ShedReason, Status
from tests.support.eventually import eventually

KEYS = {
    "agent", "run", "stream", "seq", "captured_unix_ms", "outcome", "answered_by", "status", "latency_ms",
    "deadline_ms", "on_time", "paced", "late_far", "reason", "link", "encoding", "model", "detections", "timing",
}  # fmt: skip
RUN = bytes(range(16))


def frame_id(seq):
    return FrameId("gw", RUN, "door", seq)


def answer(seq=1, by=AnsweredBy.NEAR, **changes):
    given = Answer(
        id=frame_id(seq),
        answered_by=by,
        status=Status.OK,
        captured_unix_us=1_700_000_000_123_456,
        latency_us=41_500,
        deadline_us=100_000,
        on_time=True,
        detections=Detections.empty(("face",)),
        model="centerface@192x160",
        link="lte",
        encoding=Encoding(codec="jpeg", quality=50, width_px=320, height_px=224, body_bytes=9000),
        timing_us={"encode": 2_250, "detect": 18_000},
    )
    return replace(given, **changes)


def frame(seq):
    return Frame(
        stream="door",
        seq=seq,
        picture=np.zeros((2, 2, 3), np.uint8),
        captured_us=0,
        available_us=0,
        captured_unix_us=1_700_000_000_000_000,
    )


class Clock:
    def __init__(self):
        self.now_us = 1_000_000

    def __call__(self):
        return self.now_us


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def run_dir(tmp_path, clock):
    made = RunDir(tmp_path / "run", clock_us=clock)
    yield made
    assert made.close(5.0)


def lines(run_dir):
    return [json.loads(line) for line in (run_dir.path / "frames.jsonl").read_text().splitlines()]


def by_seq(run_dir):
    return {line["seq"]: line for line in lines(run_dir)}


def test_an_answered_frame_has_every_key_with_its_unit():
    line = answer_line(answer())
    assert set(line) == KEYS
    assert line["run"] == RUN.hex()
    assert line["captured_unix_ms"] == 1_700_000_000_123.456
    assert (line["outcome"], line["answered_by"], line["status"]) == ("answered", "near", "ok")
    assert (line["latency_ms"], line["deadline_ms"]) == (41.5, 100.0)
    assert line["encoding"] == {"codec": "jpeg", "quality": 50, "width": 320, "height": 224, "bytes": 9000}
    assert line["timing"] == {"encode": 2.25, "detect": 18.0}
    assert json.loads(json.dumps(line)) == line


def test_no_answer_is_null_and_no_objects_is_an_empty_list():
    assert answer_line(answer())["detections"] == []
    missed = answer(
        by=AnsweredBy.MISSED, status=Status.TIMEOUT, detections=None, encoding=None, on_time=False
    )
    assert answer_line(missed)["detections"] is None
    assert answer_line(missed)["encoding"] is None


def test_a_shed_frame_has_the_same_keys_and_its_reason():
    line = shed_line(frame(4), frame_id(4), ShedReason.OVERLOAD)
    assert set(line) == KEYS
    assert (line["outcome"], line["reason"], line["seq"]) == ("shed", "overload", 4)
    assert line["detections"] is None
    assert line["answered_by"] is None


def test_far_answers_and_shed_frames_are_written_at_once(run_dir):
    run_dir.answered(answer(1, by=AnsweredBy.FAR))
    run_dir.shed(frame(2), frame_id(2), ShedReason.SLOT_OVERWRITTEN)
    eventually(lambda: len(lines(run_dir)) == 2, what="both lines")
    assert [line["seq"] for line in lines(run_dir)] == [1, 2]


def test_a_late_far_result_marks_the_line_of_its_frame_only(run_dir):
    for seq in (1, 2):
        run_dir.answered(answer(seq))
    run_dir.late_far(frame_id(2))
    assert run_dir.close(5.0)
    assert {seq: line["late_far"] for seq, line in by_seq(run_dir).items()} == {1: False, 2: True}
    assert run_dir.late_unmarked == 0


def test_a_line_is_held_for_the_late_window_and_then_written_as_it_is(run_dir, clock):
    run_dir.answered(answer(1))
    run_dir.answered(answer(2, by=AnsweredBy.FAR))
    eventually(lambda: run_dir.lines == 1, what="the far line")
    assert list(by_seq(run_dir)) == [2]
    clock.now_us += 1_999_000
    run_dir.answered(answer(3, by=AnsweredBy.FAR))
    eventually(lambda: run_dir.lines == 2, what="another far line")
    assert list(by_seq(run_dir)) == [2, 3]
    clock.now_us += 1_000
    eventually(lambda: len(lines(run_dir)) == 3, what="the held line")
    assert by_seq(run_dir)[1]["late_far"] is False


def test_a_late_result_whose_line_is_written_is_counted_and_changes_nothing(run_dir, clock):
    run_dir.answered(answer(1))
    run_dir.settled(frame_id(1))
    eventually(lambda: len(lines(run_dir)) == 1, what="the settled line")
    run_dir.late_far(frame_id(1))
    eventually(lambda: run_dir.late_unmarked == 1, what="the count")
    clock.now_us += 10_000_000
    assert run_dir.close(5.0)
    assert [line["late_far"] for line in lines(run_dir)] == [False]


def test_every_frame_has_one_line_after_close_whatever_was_held(run_dir):
    for seq in range(1, 301):
        match seq % 3:
            case 0:
                run_dir.answered(answer(seq))
            case 1:
                run_dir.answered(answer(seq, by=AnsweredBy.FAR))
            case _:
                run_dir.shed(frame(seq), frame_id(seq), ShedReason.STOPPING)
        if seq % 6 == 0:
            run_dir.settled(frame_id(seq))
    assert run_dir.close(5.0)
    assert sorted(line["seq"] for line in lines(run_dir)) == list(range(1, 301))
    assert (run_dir.lines, run_dir.lost) == (300, 0)


def test_lines_that_do_not_fit_are_counted_and_nobody_waits(tmp_path, clock):
    run_dir = RunDir(tmp_path, clock_us=clock, limit=0)
    run_dir.answered(answer(1))
    run_dir.shed(frame(2), frame_id(2), ShedReason.OVERLOAD)
    run_dir.late_far(frame_id(1))
    assert run_dir.close(5.0)
    assert (run_dir.lines, run_dir.lost, run_dir.late_unmarked) == (0, 2, 1)


def test_an_earlier_run_in_the_same_directory_is_set_aside_and_kept_whole(tmp_path, clock):
    for seq in (1, 2, 3):
        run_dir = RunDir(tmp_path, clock_us=clock)
        run_dir.answered(answer(seq))
        assert run_dir.close(5.0)
        run_dir.write_summary({"captured": seq})
    assert [line["seq"] for line in lines(run_dir)] == [3]
    for number in (1, 2):
        earlier = tmp_path / f"earlier-{number}"
        assert json.loads((earlier / "frames.jsonl").read_text())["seq"] == number
        assert json.loads((earlier / "summary.json").read_text()) == {"captured": number}


def test_the_summary_is_replaced_in_one_step(run_dir):
    run_dir.write_summary({"captured": 1})
    run_dir.write_summary({"captured": 2, "laws": {"frames": True}})
    assert json.loads((run_dir.path / "summary.json").read_text()) == {
        "captured": 2,
        "laws": {"frames": True},
    }
    assert sorted(p.name for p in run_dir.path.iterdir()) == ["frames.jsonl", "summary.json"]


def test_a_summary_that_cannot_be_written_leaves_the_old_one_and_nothing_else(run_dir):
    run_dir.write_summary({"captured": 1})
    with pytest.raises(TypeError):
        run_dir.write_summary({"captured": object()})
    assert json.loads((run_dir.path / "summary.json").read_text()) == {"captured": 1}
    assert sorted(p.name for p in run_dir.path.iterdir()) == ["frames.jsonl", "summary.json"]


def test_a_directory_that_cannot_be_used_is_refused_with_its_path(tmp_path, clock):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="file"):
        RunDir(tmp_path / "file", clock_us=clock)


# -- the link over time -----------------------------------------------------------------------------------


def sight(**changes):
    seen = LinkSight(
        unix_us=1_700_000_000_123_456,
        link="lte",
        connected=True,
        in_budget=False,
        reason="link silent",
        rtt_us=None,
        rtt_min_us=21_500,
        bytes_per_us=1.25,
        in_flight_bytes=5000,
        near_guard_us=14_000,
        fall_back_above_us=100_000,
        return_below_us=50_000,
    )
    return replace(seen, **changes)


def test_the_link_has_a_line_a_look_with_units_and_null_where_nothing_was_measured(run_dir):
    run_dir.link(sight())
    run_dir.link(sight(rtt_us=23_250, in_budget=True, reason=""))
    assert run_dir.close(5.0)
    first, second = (json.loads(x) for x in (run_dir.path / "link.jsonl").read_text().splitlines())
    assert first == {
        "unix_ms": 1_700_000_000_123.456,
        "link": "lte",
        "connected": True,
        "in_budget": False,
        "reason": "link silent",
        "rtt_ms": None,
        "rtt_min_ms": 21.5,
        "bandwidth_mbit": 10.0,
        "in_flight_bytes": 5000,
        "near_guard_ms": 14.0,
        "fall_back_above_ms": 100.0,
        "return_below_ms": 50.0,
    }
    assert (second["rtt_ms"], second["in_budget"]) == (23.25, True)


def test_an_agent_without_a_link_leaves_no_file_about_one(run_dir):
    run_dir.answered(answer())
    assert run_dir.close(5.0)
    assert sorted(p.name for p in run_dir.path.iterdir()) == ["frames.jsonl"]


# -- pictures of the worst --------------------------------------------------------------------------------


def picture(width=64, height=32, dtype=np.uint8, channels=(3,)):
    rng = np.random.default_rng(width)
    return rng.integers(0, np.iinfo(dtype).max, (height, width, *channels), dtype)


def decoded(data):
    shown = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    assert shown is not None
    return shown


def kept(run_dir):
    return sorted(int(p.name.split(".")[0].removeprefix("door-")) for p in (run_dir.path / "worst").iterdir())


def give(run_dir, seq, latency_us, **changes):
    """One answer with its picture, and wait until it is dealt with, so that none finds the room full."""
    run_dir.answered(
        answer(seq, by=AnsweredBy.FAR, latency_us=latency_us, on_time=latency_us <= 100_000, **changes),
        picture(),
    )
    eventually(lambda: run_dir.lines == seq and run_dir._picture_room._value == 8, what="the picture")


def test_pictures_of_the_ten_worst_frames_are_kept_and_no_more(run_dir):
    for seq in range(1, 41):
        give(run_dir, seq, latency_us=40_000 + (seq * 7919) % 50_000)
    worst = sorted(range(1, 41), key=lambda seq: (seq * 7919) % 50_000)[-10:]
    assert kept(run_dir) == sorted(worst)
    assert run_dir.pictures_missed == 0


def test_a_missed_frame_is_worse_than_a_late_one_and_a_late_one_than_any_in_time(run_dir):
    give(run_dir, 1, latency_us=100_000)
    for seq in range(2, 12):
        give(run_dir, seq, latency_us=100_001)
    assert kept(run_dir) == list(range(2, 12))
    run_dir.answered(
        answer(12, by=AnsweredBy.MISSED, status=Status.TIMEOUT, detections=None, latency_us=99_000), picture()
    )
    run_dir.settled(frame_id(12))
    eventually(lambda: run_dir.lines == 12 and 12 in kept(run_dir), what="the missed frame")
    assert kept(run_dir) == [*range(2, 11), 12]  # of equals, the earlier stay


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
    assert run_dir._picture_room._value == 8
    assert run_dir.close(5.0)


def test_a_disk_that_takes_no_pictures_costs_no_lines(run_dir):
    (run_dir.path / "worst").write_text("a file where the folder should be")
    run_dir.answered(answer(1, by=AnsweredBy.FAR), picture())
    run_dir.answered(answer(2, by=AnsweredBy.FAR))
    assert run_dir.close(5.0)
    assert (run_dir.lines, run_dir.pictures_missed) == (2, 1)


def test_link_and_pictures_of_an_earlier_run_are_set_aside_with_it(tmp_path, clock):
    for _ in range(2):
        run_dir = RunDir(tmp_path, clock_us=clock)
        run_dir.answered(answer(1, by=AnsweredBy.FAR), picture())
        run_dir.link(sight())
        assert run_dir.close(5.0)
        (tmp_path / "report.html").write_text("a page")
    assert sorted(p.name for p in (tmp_path / "earlier-1").iterdir()) == [
        "frames.jsonl",
        "link.jsonl",
        "report.html",
        "worst",
    ]
    assert len((tmp_path / "link.jsonl").read_text().splitlines()) == 1
