"""The demo's judge: it says kept only when it was kept."""

from dataclasses import replace

import pytest

from nearfar.demo.phases import PHASES, Moment
from nearfar.demo.verdict import Evidence, checks, identity, paragraph


def lines():
    """A run as it should be, at 25 fps from unix second 1000."""
    out = []
    seq = 0
    at_s = 1000.0
    for phase in PHASES:
        for _ in range(int(phase.seconds * 25)):
            seq += 1
            out.append(
                {
                    "run": "ab",
                    "stream": "street",
                    "seq": seq,
                    "captured_unix_ms": at_s * 1000,
                    "outcome": "answered",
                    "answered_by": "far" if phase.good else "near",
                    "latency_ms": 50.0,
                    "on_time": True,
                    "detections": [{"label": "face"}] if phase.good else [],
                }
            )
            at_s += 0.04
    return out


def moments():
    out, at_s = [], 1000.0
    for phase in PHASES:
        out.append(Moment(phase=phase, start_s=at_s, end_s=at_s + phase.seconds))
        at_s += phase.seconds
    return out


def evidence(run=None):
    run = lines() if run is None else run
    return Evidence(
        lines=run,
        moments=moments(),
        records=frozenset(identity(x) for x in run if x["outcome"] == "answered"),
        duplicates=0,
        summary={
            "frames": {"captured": len(run), "pending": 0, "adds_up": True},
            "deadline_ms": 100.0,
            "outbox": {"committed": 400, "acked": 400, "pending": 0},
            "far": {"payload_bytes": 7_000_000, "offloaded": 700},
        },
        clip_frames=250,
    )


def broken(seen):
    return {check.promise for check in checks(seen) if not check.held}


def test_a_run_that_kept_everything_is_said_to_have_kept_everything():
    assert broken(evidence()) == set()


def test_the_paragraph_says_what_far_saw_and_what_it_cost():
    text = paragraph(evidence())
    assert "1100 frames" in text
    assert "Pictures cost 7.0 MB up" in text
    assert "far saw more on" in text


@pytest.mark.parametrize(
    ("change", "promise"),
    [
        (lambda x: x | {"on_time": x["seq"] % 50 != 0}, "on time"),
        (lambda x: x | {"answered_by": "near"} if x["seq"] < 220 else x, "far while healthy"),
        (lambda x: x | {"answered_by": "far"} if 300 < x["seq"] < 400 else x, "near during RTT 200 ms"),
        (
            lambda x: x | {"answered_by": "near"} if 426 <= x["seq"] < 470 else x,
            "far again after the link is healthy again",
        ),
        (lambda x: x | {"outcome": "shed"} if x["seq"] % 60 == 0 else x, "shed"),
    ],
)
def test_a_promise_that_was_not_kept_is_said_to_be_broken(change, promise):
    assert promise in broken(evidence([change(x) for x in lines()]))


def test_a_lost_a_foreign_and_a_double_record_are_each_seen():
    good = evidence()
    some = next(iter(good.records))
    lost = replace(good, records=good.records - {some})
    foreign = replace(good, records=good.records | {("cd", "street", 1)})
    double = replace(good, duplicates=1)
    for seen in (lost, foreign, double):
        assert broken(seen) == {"records in the cloud = answers given"}


def test_a_frame_without_a_line_is_seen():
    good = evidence()
    summary = {**good.summary, "frames": {"captured": 1101, "pending": 0, "adds_up": True}}
    assert broken(replace(good, summary=summary)) == {"no frame uncounted"}
