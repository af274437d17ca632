"""The run directory: one line per captured frame, whole, once, and never a wait for who writes it."""

import json
from dataclasses import replace

import numpy as np
import pytest

from edge.run_dir import RunDir, answer_line, shed_line
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
