"""For any history of links, near and frames: slots never overlap, nothing is answered twice, all adds up."""

from functools import partial

from hypothesis import example, given, settings
from hypothesis import strategies as st

from edge.scheduling.settings import SmallNear, StreamSettings, Tracking
from pipelines.result import AnsweredBy, Priority
from tests.support.virtual import LADDER, LINK, MS, World, links, world

PHASE = st.tuples(
    st.sampled_from([5, 20, 60, 90, 130, 250, None]),  # round trip, ms; None = lost
    st.sampled_from([2, 15, 35, 80]),  # near, ms
    st.sampled_from([1, 20, 70, 300]),  # worker, ms
    st.integers(1, 25),  # frames
    st.sampled_from([10, 33, 66]),  # ms between frames
    st.sampled_from(["nothing", "disconnect", "connect"]),
)
PART = st.fixed_dictionaries(
    {
        "rtt_ms": st.sampled_from([5, 20, 90, 250, None]),
        "mbit": st.sampled_from([0.5, 4, 100]),
        "worker_ms": st.sampled_from([1, 20, 300]),
        "frames_pass": st.booleans(),
        "event": st.sampled_from(["nothing", "disconnect", "connect"]),
    }
)
MANY_LINKS = st.lists(
    st.tuples(
        st.lists(PART, min_size=3, max_size=3),
        st.sampled_from([2, 15, 35, 80]),  # near, ms
        st.integers(1, 20),  # frames
        st.sampled_from([10, 33, 66]),  # ms between frames
    ),
    min_size=1,
    max_size=5,
)
LINKS = ("a", "b", "c")
HOURLY = 300_000
STREAMS = {p.value: StreamSettings(pixels=320 * 240, priority=p) for p in Priority}


def _always(value):
    return lambda _: value


def _play(w: World, phases, *, streams=tuple(STREAMS)) -> int:
    """Run the phases; returns how many frames each stream had."""
    seq = 0
    for parts, near_ms, frames, every_ms in phases:
        w.near_us = _always(near_ms * MS)
        for (name, wire), part in zip(w.wires.items(), parts, strict=True):
            wire.rtt_us = _always(None if part["rtt_ms"] is None else part["rtt_ms"] * MS)
            wire.bytes_per_us = part["mbit"] / 8
            wire.worker_us = _always(part["worker_ms"] * MS)
            wire.frames_pass = part["frames_pass"]
            if part["event"] == "disconnect":
                w.disconnect(name)
            elif part["event"] == "connect":
                w.connect(name)
        for _ in range(frames):
            seq += 1
            for stream in streams:
                w.frame(seq, stream)
            w.run_until(w.now_us + every_ms * MS)
            _check_ways(w)
    return seq


def _check_ways(w: World) -> None:
    """Nothing waits on a dead link, and no link holds a frame the scheduler does not know."""
    for way in w.scheduler.ways.values():
        if not way.breaker.connected:
            assert not way.flights
        for forecast_us in (0, 50 * MS, 10_000 * MS):
            p = way.forecast(w.now_us).p_on_time(5_000, forecast_us)
            assert 0.0 <= p <= 1.0


def _check_ended(w: World, captured: int) -> None:
    """Every frame was answered or shed, once, and nothing is kept for it."""
    assert len(w.released) + len(w.shed_for) + len(w.waiting) == captured
    assert set(w.released) == set(w.given)
    assert not set(w.released) & set(w.shed_for)
    assert not w.scheduler.near.timeline.slots
    assert w.scheduler.open_frames == 0
    assert [way.flights for way in w.scheduler.ways.values() if way.flights] == []
    for key, (_, by) in w.released.items():
        if by in (AnsweredBy.NEAR, AnsweredBy.FAR, AnsweredBy.TRACKED):
            assert w.given[key].status == "ok"


@settings(max_examples=60, deadline=None)
@given(
    phases=st.lists(PHASE, min_size=1, max_size=6),
    policy=st.sampled_from(["deadline", "confidence", "threshold", "near_only", "far_only"]),
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
            w.disconnect(LINK)
        elif event == "connect":
            w.connect()
        for _ in range(frames):
            seq += 1
            w.frame(seq)
            if two_streams:
                w.frame(seq, "t")
            w.run_until(w.now_us + every_ms * MS)
    w.run_until(w.now_us + 3_000 * MS)
    _check_ended(w, seq * (2 if two_streams else 1))


OPTIONS = st.fixed_dictionaries(
    {
        "policy": st.sampled_from(["deadline", "threshold", "far_only"]),
        "near_accuracy": st.sampled_from([0.5, None]),
        "small_near": st.sampled_from([None, SmallNear(accuracy=0.4, prior_us=8 * MS)]),
        "tracking": st.sampled_from([None, Tracking(accuracy=0.3)]),
        "duplicate": st.sampled_from([frozenset(), frozenset(Priority)]),
        "links": st.builds(
            lambda metered, budget: links(*LINKS, metered=metered, bytes_per_hour=budget),
            st.booleans(),
            st.sampled_from([None, HOURLY]),
        ),
    }
)


@settings(max_examples=80, deadline=None)
@given(
    phases=MANY_LINKS,
    options=OPTIONS,
    encode_ms=st.sampled_from([2, 40, 150]),
    stop_ms=st.sampled_from([1, 5, None]),
)
def test_any_history_of_three_links_three_priorities_and_a_ladder_adds_up(
    phases, options, encode_ms, stop_ms
):
    w = world(streams=STREAMS, ladder=LADDER, duplicate_share=1.0, **options)
    w.stop_us = None if stop_ms is None else stop_ms * MS
    w.encode_us = encode_ms * MS
    seq = _play(w, phases)
    w.run_until(w.now_us + 3_000 * MS)
    _check_ended(w, 3 * seq)
    for link in options["links"]:
        if link.bytes_per_hour is not None:
            assert w.wires[link.name].sent_bytes <= HOURLY


@settings(max_examples=40, deadline=None)
@given(
    outages=st.lists(st.tuples(st.integers(200, 3000), st.integers(200, 3000)), min_size=1, max_size=4),
    fps=st.sampled_from([10, 15, 25]),
    kind=st.sampled_from(["blackhole", "mtu", "thin"]),
)
def test_a_hedged_frame_is_on_time_whatever_the_link_does_while_near_keeps_its_guard(outages, fps, kind):
    w = world(ladder=LADDER)
    at_us = w.now_us
    bad = {"blackhole": None, "mtu": 20 * MS, "thin": 20 * MS}[kind]
    for good_ms, bad_ms in outages:
        for offset_ms, is_bad in ((good_ms, True), (good_ms + bad_ms, False)):

            def turn(is_bad=is_bad):
                w.rtt_us = _always(bad if is_bad else 20 * MS)
                w.wire.frames_pass = not (is_bad and kind == "mtu")
                w.wire.bytes_per_us = 0.06 if is_bad and kind == "thin" else 12.5

            w.at(at_us + offset_ms * MS, turn)
        at_us += (good_ms + bad_ms) * MS
    w.run_frames(int((at_us - w.now_us) / 1e6 * fps) + 10, every_us=int(1e6 / fps))
    assert w.late() == []
    assert w.share(AnsweredBy.MISSED) == 0.0
    assert w.shed == []


@settings(max_examples=40, deadline=None)
@given(
    runs_ms=st.lists(st.sampled_from([8, 9, 10, 12, 25, 55]), min_size=5, max_size=40),
    outages_ms=st.lists(st.integers(100, 3000), max_size=4),
    hedge=st.sampled_from(["late", "immediate"]),
    every_ms=st.sampled_from([66, 100]),
)
def test_what_is_sent_far_owns_near_time_and_is_on_time_however_long_nears_known_tail(
    runs_ms, outages_ms, hedge, every_ms
):
    # Six times p50 of some, half the tail of others.
    w = world(ladder=LADDER, hedge=hedge, near_prior_us=30 * MS, connect=False)
    w.near_us = lambda now: runs_ms[now // (every_ms * MS) % len(runs_ms)] * MS
    w.run_frames(len(runs_ms), every_us=every_ms * MS)  # by near alone: from here on its tail is known
    w.connect()
    at_us = w.now_us
    for i, lasts_ms in enumerate(outages_ms):
        at_us += lasts_ms * MS
        w.at(at_us, partial(setattr, w, "rtt_us", _always(None if i % 2 == 0 else 20 * MS)))
    first_seq = len(runs_ms) + 1
    w.run_frames(100, every_us=every_ms * MS, first_seq=first_seq)
    assert w.uncovered == []
    assert w.late() == []
    assert w.share(AnsweredBy.MISSED, first_seq=first_seq) == 0.0


@settings(max_examples=40, deadline=None)
@given(phases=st.lists(PHASE, min_size=1, max_size=6), reconnects=st.booleans())
@example(phases=[(5, 2, 20, 1, 33, "nothing"), (None, 2, 1, 7, 10, "nothing")], reconnects=False)
def test_whatever_happened_far_is_back_once_the_link_is_healthy_again(phases, reconnects):
    w = world()
    seq = 0
    for rtt_ms, near_ms, worker_ms, frames, every_ms, event in phases:
        w.rtt_us = _always(None if rtt_ms is None else rtt_ms * MS)
        w.near_us = _always(near_ms * MS)
        w.worker_us = _always(worker_ms * MS)
        if event == "disconnect":
            w.disconnect(LINK, "cut")
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


@settings(max_examples=40, deadline=None)
@given(phases=MANY_LINKS)
def test_whatever_happened_to_three_links_far_is_back_at_the_best_rung_once_they_are_healthy(phases):
    w = world(ladder=LADDER, links=links(*LINKS))
    seq = _play(w, phases, streams=("s",))
    w.near_us = _always(20 * MS)
    for wire in w.wires.values():
        wire.rtt_us, wire.worker_us = _always(20 * MS), _always(20 * MS)
        wire.bytes_per_us, wire.frames_pass = 12.5, True
        wire.free_us = min(wire.free_us, w.now_us)
    for name, way in w.scheduler.ways.items():
        if not way.breaker.connected:
            w.connect(name)
    w.run_frames(300, every_us=40 * MS, first_seq=seq + 1)
    last = [("s", n) for n in range(seq + 276, seq + 301)]
    assert sum(w.released[key][1] is AnsweredBy.FAR for key in last) >= 22
    assert sum(w.rungs.get(key) == 0 for key in last) >= 22
