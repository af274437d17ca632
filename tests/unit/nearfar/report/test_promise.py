"""The first line of a report: a verdict that can be trusted, and counts that add up."""

import pytest

from nearfar.report.promise import judge, percent
from nearfar.report.run import read_run
from nearfar.report.tables import frames_law, outbox_law
from tests.support.run_dirs import (
    frame_line,
    mixed,
    summary_of,
)


def drawn(made):
    """A figure or a law that has to be there."""
    assert made is not None
    return made


def test_a_run_in_which_every_frame_was_answered_in_time_kept_its_promise(made):
    promise = judge(made(mixed()))
    assert promise.state == "kept"
    assert promise.line == (
        "Promise kept: 200 of 200 frames (100 %) answered by their deadline of 100 ms; "
        "no answer lost, no frame uncounted."
    )


def test_one_miss_in_two_hundred_is_told_and_still_kept(made):
    promise = judge(made([*mixed(199), frame_line(200, "missed")]))
    assert promise.line.startswith("Promise kept: 199 of 200 frames (99.5 %)")


def test_too_many_late_frames_break_the_promise_and_the_line_says_what_was_wanted(made):
    lines = mixed(100)
    for line in lines[:5]:
        line |= {"on_time": False, "latency_ms": 140.0}
    assert judge(made(lines)).line == (
        "Promise broken: 95 of 100 frames (95.0 %) answered by their deadline of 100 ms, and 99 % are wanted; "
        "no answer lost, no frame uncounted."
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"broken": ["12 answers did not reach the sink jsonl"]}, "12 answers did not reach the sink jsonl"),
        ({"broken": ["3 answers could not be kept in the outbox"]}, "3 answers could not be kept"),
        ({"frames": {"captured": 100, "adds_up": False}}, "the counts of frames do not add up"),
        ({"frames": {"captured": 103, "adds_up": True}}, "3 frames have no readable line"),
        ({"frames": {"captured": 100, "adds_up": True, "pending": 2}}, "2 frames were still unanswered"),
        ({"outbox": {"committed": 9, "evicted": {"age": 4}}}, "4 answers were evicted from the outbox"),
        ({"outbox": {"committed": 9, "set_aside": 5}}, "5 answers were set aside with a damaged outbox"),
        ({"outbox": {"committed": 9, "adds_up": False}}, "the counts of the outbox do not add up"),
    ],
)
def test_what_was_lost_or_not_counted_breaks_the_promise_however_timely_the_answers(made, changes, words):
    lines = mixed(100)
    promise = judge(made(lines, summary=summary_of(lines, **changes)))
    assert promise.state == "broken"
    assert words in promise.line


def test_what_the_outbox_lost_in_earlier_runs_is_not_held_against_this_one(made):
    lines = mixed(100)
    outbox = {
        "committed": 9,
        "acked": 3,
        "pending": 0,
        "evicted": {"age": 4},
        "set_aside": 2,
        "adds_up": True,
    }
    before = {"evicted": 4, "set_aside": 2}
    run = made(lines, summary=summary_of(lines, outbox=outbox, outbox_before=before))
    assert judge(run).state == "kept"
    assert drawn(outbox_law(run)).holds


def test_gated_frames_are_outside_the_share_that_was_on_time(made):
    lines = [frame_line(i, "gated" if i % 2 else "near", reason="") for i in range(1, 101)]
    run = made(lines)
    assert judge(run).line.startswith("Promise kept: 50 of 50 frames")
    assert judge(made(lines, summary=summary_of(lines, on_time={}))).line.startswith("Promise kept: 50 of 50")


def test_a_source_without_a_pace_has_no_deadline_to_keep_and_the_line_says_so(made):
    lines = [frame_line(i, paced=False, on_time=False) for i in range(1, 51)]
    promise = judge(made(lines, summary=summary_of(lines, on_time={"frames": 0, "of": 0})))
    assert promise.state == "kept"
    assert "50 frames; none had a deadline to keep" in promise.line


def test_answers_that_wait_for_the_cloud_are_not_lost_but_told(made):
    lines = mixed(100)
    outbox = {"committed": 50, "acked": 20, "pending": 30, "evicted": {}, "set_aside": 0, "adds_up": True}
    promise = judge(made(lines, summary=summary_of(lines, outbox=outbox)))
    assert promise.state == "kept"
    assert "30 answers still wait in the outbox" in promise.details[0]


def test_an_agent_that_was_killed_is_not_judged_and_its_frames_are_still_shown(page):
    seen = page(mixed(150), summary=None)
    assert "Not judged: the agent was killed or still runs" in seen.text
    assert "150 of 150 frames (100 %) answered by their deadline of 100 ms" in seen.text
    assert "150 lines = 100 far + 50 near" in seen.text


def test_a_share_is_never_rounded_up_to_all_nor_down_to_none():
    assert percent(99_999, 100_000) == "99.999 %"
    assert percent(1, 100_000) == "0.001 %"
    assert percent(9_999_999, 10_000_000) == ">99.999 %"
    assert (percent(5, 5), percent(0, 5), percent(1, 3), percent(0, 0)) == ("100 %", "0 %", "33.3 %", "–")


def test_the_laws_add_up_or_say_that_they_do_not(made):
    lines = [*mixed(100), frame_line(101, "shed"), frame_line(102, "gated")]
    law = frames_law(made(lines))
    assert law.holds
    assert (
        law.words == "102 captured = 50 far + 50 near + 0 tracked + 0 missed + 1 shed + 1 gated + 0 pending"
    )
    broken = summary_of(lines)
    broken["frames"]["captured"] = 110
    assert frames_law(made(lines, summary=broken)).words.startswith("110 captured ≠ 50 far")


@pytest.mark.parametrize("untold", [None, {}, "?"], ids=["null", "empty", "text"])
@pytest.mark.parametrize("block", ["frames", "outbox", "run_dir"])
def test_a_summary_that_does_not_count_losses_leaves_the_promise_unjudged(made, block, untold):
    lines = mixed(100)
    promise = judge(made(lines, summary=summary_of(lines, **{block: untold})))
    assert promise.state == "open"
    assert promise.line.startswith(f"Not judged: summary.json does not say {block}.")
    assert "no answer lost" not in promise.line


def test_a_breach_that_is_known_stays_one_whatever_else_is_not_known(made):
    lines = mixed(100)
    promise = judge(made(lines, summary=summary_of(lines, outbox=None, broken=["3 answers were not kept"])))
    assert promise.state == "broken"
    assert "3 answers were not kept" in promise.line
    assert any("outbox.committed" in words for words in promise.details)


@pytest.mark.parametrize("text", ["{", "[]", "[" * 100_000, "\xff"], ids=["cut", "list", "deep", "bytes"])
def test_a_damaged_summary_is_called_so_and_not_a_killed_agent(made, text):
    root = made(mixed(100)).path
    (root / "summary.json").write_bytes(text.encode("latin-1"))
    promise = judge(read_run(root))
    assert promise.state == "open"
    assert promise.line.startswith("Not judged: summary.json is damaged and cannot be read. Of the frames")


@pytest.mark.parametrize(
    ("text", "words"),
    [("", "frames.jsonl holds no frame"), ("garbage\n{}\n", "Not one line of frames.jsonl can be read")],
)
def test_frames_that_cannot_be_read_are_not_called_frames_that_were_not_captured(made, text, words):
    root = made([], summary=None).path
    (root / "frames.jsonl").write_text(text)
    promise = judge(read_run(root))
    assert promise.state == "open"
    assert promise.line.startswith("Not judged: the agent was killed or still runs")
    assert words in promise.line
