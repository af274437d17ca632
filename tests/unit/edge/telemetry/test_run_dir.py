"""The run directory: one line per captured frame, whole, once, and never a wait for who writes it."""

import json
import threading

import pytest

from edge.far.sight import FRESH_US
from edge.telemetry.frame_lines import answer_line, shed_line
from edge.telemetry.run_dir import RunDir
from pipelines.errors import ConfigError
from pipelines.result import AnsweredBy, ShedReason, Status
from tests.support.eventually import eventually
from tests.support.run_records import RUN, Clock, answer, frame, frame_id, picture, sight

KEYS = {
    "agent", "run", "stream", "seq", "captured_unix_ms", "outcome", "answered_by", "status", "latency_ms",
    "deadline_ms", "on_time", "paced", "late_far", "reason", "link", "p_on_time", "encoding", "model", "age_frames",
    "detections", "timing",
}  # fmt: skip


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
    assert line["encoding"] == {
        "codec": "jpeg",
        "quality": 50,
        "width": 320,
        "height": 224,
        "bits": 8,
        "bytes": 9000,
    }
    assert line["timing"] == {"encode": 2.25, "detect": 18.0}
    assert json.loads(json.dumps(line)) == line


def test_a_line_says_how_likely_far_was_when_the_frame_left_and_null_where_it_never_did():
    assert answer_line(answer(p_on_time=2 / 3))["p_on_time"] == 0.667
    assert answer_line(answer())["p_on_time"] is None
    assert shed_line(frame(4), frame_id(4), ShedReason.OVERLOAD)["p_on_time"] is None


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


def test_a_line_that_cannot_be_made_costs_no_other_line_and_is_counted(run_dir, caplog):
    odd = answer(1, by=AnsweredBy.FAR, timing_us={"encode": object()})
    run_dir.answered(odd)
    run_dir.answered(answer(2, timing_us={"encode": object()}))
    run_dir.answered(answer(3, by=AnsweredBy.FAR))
    run_dir.shed(frame(4), frame_id(4), ShedReason.OVERLOAD)
    assert run_dir.close(5.0)
    assert list(by_seq(run_dir)) == [3, 4]
    assert (run_dir.lines, run_dir.lost) == (2, 2)
    assert caplog.text.count("run directory") == 1


def test_an_event_that_breaks_on_the_way_costs_no_other_and_is_counted(tmp_path):
    broken = iter([ZeroDivisionError])

    def clock_us():
        for error in broken:
            raise error
        return 0

    run_dir = RunDir(tmp_path, clock_us=clock_us)
    for seq in (1, 2):
        run_dir.answered(answer(seq))
    assert run_dir.close(5.0)
    assert [line["seq"] for line in lines(run_dir)] == [2]
    assert run_dir.lost == 1


def test_lines_a_disk_does_not_take_in_time_are_counted_as_lost(tmp_path):
    slow = threading.Event()

    def clock_us():
        slow.wait(10.0)
        return 0

    run_dir = RunDir(tmp_path, clock_us=clock_us)
    for seq in (1, 2, 3):
        run_dir.answered(answer(seq))
    assert run_dir.lost == 0, "they may still be written"
    assert not run_dir.close(0.01)
    assert run_dir.lost == 3
    slow.set()
    assert run_dir.close(5.0)
    assert (run_dir.lines, run_dir.lost) == (3, 0)


# -- the link over time -----------------------------------------------------------------------------------


def test_the_link_has_a_line_a_look_with_units_and_null_where_nothing_was_measured(run_dir):
    run_dir.link(sight(rtt_us=40_000, rtt_age_us=FRESH_US + 1))
    run_dir.link(sight(rtt_us=23_250, rtt_age_us=FRESH_US, in_budget=True, reason=""))
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
