"""For any history of link, near and frames: slots never overlap, nothing is answered twice, all adds up."""

from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.result import AnsweredBy
from tests.support.virtual import LINK, MS, world

PHASE = st.tuples(
    st.sampled_from([5, 20, 60, 90, 130, 250, None]),  # round trip, ms; None = lost
    st.sampled_from([2, 15, 35, 80]),  # near, ms
    st.sampled_from([1, 20, 70, 300]),  # worker, ms
    st.integers(1, 25),  # frames
    st.sampled_from([10, 33, 66]),  # ms between frames
    st.sampled_from(["nothing", "disconnect", "connect"]),
)


def _always(value):
    return lambda _: value


@settings(max_examples=60, deadline=None)
@given(
    phases=st.lists(PHASE, min_size=1, max_size=6),
    policy=st.sampled_from(["deadline", "threshold", "near_only", "far_only"]),
    hedge=st.sampled_from(["late", "immediate", "never"]),
    two_streams=st.booleans(),
    commit_ms=st.sampled_from([0, 1, 30, None]),
)
def test_any_history_answers_every_accepted_frame_once_and_adds_up(
    phases, policy, hedge, two_streams, commit_ms
):
    w = world(policy=policy, hedge=hedge)
    w.commit_us = None if commit_ms is None else commit_ms * MS
    seq = 0
    for rtt_ms, near_ms, worker_ms, frames, every_ms, event in phases:
        w.rtt_us = _always(None if rtt_ms is None else rtt_ms * MS)
        w.near_us = _always(near_ms * MS)
        w.worker_us = _always(worker_ms * MS)
        if event == "disconnect":
            w.do(w.scheduler.disconnected(LINK, "cut", w.now_us))
        elif event == "connect":
            w.connect()
        for _ in range(frames):
            seq += 1
            w.frame(seq)
            if two_streams:
                w.frame(seq, "t")
            w.run_until(w.now_us + every_ms * MS)
    w.run_until(w.now_us + 3_000 * MS)
    captured = seq * (2 if two_streams else 1)
    assert len(w.released) + len(w.shed) + len(w.waiting) == captured
    assert set(w.released) == set(w.given)
    assert not w.scheduler.near.timeline.slots
    assert 0 <= w.scheduler.open_frames == 0
    for key, (_, by) in w.released.items():
        if by in (AnsweredBy.NEAR, AnsweredBy.FAR):
            assert w.given[key].status == "ok"


@settings(max_examples=40, deadline=None)
@given(
    outages=st.lists(st.tuples(st.integers(200, 3000), st.integers(200, 3000)), min_size=1, max_size=4),
    fps=st.sampled_from([10, 15, 25]),
)
def test_a_hedged_frame_is_on_time_whatever_the_link_does_while_near_keeps_its_guard(outages, fps):
    w = world()
    edges = []
    at_us = w.now_us
    for good_ms, bad_ms in outages:
        edges.append((at_us + good_ms * MS, at_us + (good_ms + bad_ms) * MS))
        at_us += (good_ms + bad_ms) * MS
    w.rtt_us = lambda now: None if any(a <= now < b for a, b in edges) else 20 * MS
    w.run_frames(int((at_us - w.now_us) / 1e6 * fps) + 10, every_us=int(1e6 / fps))
    assert w.late() == []
    assert w.share(AnsweredBy.MISSED) == 0.0
    assert w.shed == []


@settings(max_examples=40, deadline=None)
@given(phases=st.lists(PHASE, min_size=1, max_size=6), reconnects=st.booleans())
def test_whatever_happened_far_is_back_once_the_link_is_healthy_again(phases, reconnects):
    w = world()
    seq = 0
    for rtt_ms, near_ms, worker_ms, frames, every_ms, event in phases:
        w.rtt_us = _always(None if rtt_ms is None else rtt_ms * MS)
        w.near_us = _always(near_ms * MS)
        w.worker_us = _always(worker_ms * MS)
        if event == "disconnect":
            w.do(w.scheduler.disconnected(LINK, "cut", w.now_us))
        elif event == "connect":
            w.connect()
        for _ in range(frames):
            seq += 1
            w.frame(seq)
            w.run_until(w.now_us + every_ms * MS)
    w.rtt_us, w.near_us, w.worker_us = _always(20 * MS), _always(20 * MS), _always(20 * MS)
    if reconnects or not w.way.breaker.connected:
        w.connect()
    w.run_frames(250, every_us=40 * MS, first_seq=seq + 1)
    assert w.share(AnsweredBy.FAR, first_seq=seq + 226) >= 0.9
