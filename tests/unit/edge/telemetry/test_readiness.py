"""When an agent is ready, and in which words it is not."""

from dataclasses import replace

from edge.capture.state import StreamState, StreamStatus
from edge.telemetry.readiness import reasons, without_far
from tests.support.run_records import sight


def status(state: StreamState, reason: str = "") -> StreamStatus:
    return StreamStatus(state=state, since_us=0, reason=reason)


def judged(*states: StreamStatus, turned_us=9_000_000, outbox_error="", now_us=9_100_000) -> list[str]:
    streams = {f"cam{i}": state for i, state in enumerate(states)}
    return reasons(streams=streams, turned_us=turned_us, outbox_error=outbox_error, now_us=now_us)


def test_one_stalled_camera_among_others_leaves_an_agent_ready_and_all_of_them_do_not():
    """F13."""
    stalled = status(StreamState.STALLED, "no picture for 2 s")
    assert judged(stalled, status(StreamState.RUNNING)) == []
    assert judged(stalled, status(StreamState.ENDED)) == []
    assert judged(stalled) == ["no stream gives pictures (cam0 stalled: no picture for 2 s)"]


def test_a_camera_that_is_still_being_looked_for_at_the_start_is_waited_for():
    assert judged(status(StreamState.CONNECTING)) == []


def test_a_camera_that_was_never_reached_makes_an_agent_not_ready_after_its_time_to_start():
    """F13: a wrong URL. The camera is tried for ever, and whoever watches the gateway learns of it."""
    absent = status(StreamState.CONNECTING, "no route to host")
    assert judged(absent, now_us=30_000_000, turned_us=30_000_000) == []
    words = ["no stream gives pictures (cam0 connecting: no route to host)"]
    assert judged(absent, now_us=30_000_001, turned_us=30_000_000) == words
    failed = status(StreamState.FAILED, "no such file")
    assert len(judged(absent, failed, now_us=31_000_000, turned_us=30_000_000)) == 1
    assert judged(absent, status(StreamState.RUNNING), now_us=31_000_000, turned_us=30_000_000) == []


def test_a_dispatcher_that_hangs_and_a_disk_that_refuses_are_said():
    running = status(StreamState.RUNNING)
    assert judged(running, turned_us=1_000_000) == ["the dispatcher has made no turn for 8 s"]
    assert judged(running, turned_us=0) == [], "it has not begun"
    assert judged(running, outbox_error="disk full") == ["the outbox cannot write: disk full"]


def test_an_agent_is_degraded_only_while_no_link_is_in_budget_and_says_why_of_each():
    good = sight(link="cable", in_budget=True, reason="")
    silent = sight(link="lte")
    assert without_far([], policy="deadline") == []
    assert without_far([good, silent], policy="deadline") == []
    spent = replace(good, budget_low=True)
    assert without_far([silent], policy="near_only") == [], "it asks no cloud"
    assert without_far([spent, silent], policy="deadline") == [
        "link cable: data budget used up",
        "link lte: link silent",
    ]
