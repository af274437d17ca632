"""A near run that is stopped for a frame that matters more: what it costs, and what it says of near."""

from edge.scheduling.job import NONE, RESERVED, Job
from edge.scheduling.key import Key
from edge.scheduling.ladder_cost import LadderCost
from edge.scheduling.near.claims import importance
from edge.scheduling.near.way import NearWay
from edge.scheduling.uncovered import Uncovered
from pipelines.result import AnsweredBy, Priority, Status
from tests.support.virtual import LADDER, MS, world

NEAR_US = 50 * MS
LATEST_US = 96 * MS


def job(stream: str, priority: Priority, *, answer_by_us: int = LATEST_US) -> Job:
    return Job(
        key=(stream, 1),
        captured_us=0,
        deadline_us=100 * MS,
        answer_by_us=answer_by_us,
        accepted_us=0,
        priority=priority,
        cost=LadderCost(LADDER, pixels=320 * 240),
    )


class Bench:
    """Near runs `low` since 0."""

    def __init__(self) -> None:
        self.way = NearWay(prior_us=NEAR_US, exists=True)
        for _ in range(20):
            self.way.estimate.observe(NEAR_US)
        self.low = job("low", Priority.LOW)
        self.jobs: dict[Key, Job] = {self.low.key: self.low}
        self.way.claims.asked(self.low, 0)
        self.low.eager = True
        assert self.way.reserve(self.low, latest_end_us=LATEST_US, ready_us=LATEST_US, now_us=0)
        assert self.way.start_next(self.jobs, 0) is not None

    def takes(self, one: Job, now_us: int, *, latest_end_us: int = LATEST_US) -> list[Job]:
        self.jobs[one.key] = one
        self.way.claims.asked(one, now_us)
        return self.way.make_room(
            one,
            self.jobs,
            latest_end_us=latest_end_us,
            ready_us=latest_end_us,
            now_us=now_us,
            hopeful_only=False,
        )


def test_the_time_of_a_stopped_run_is_anothers_and_its_frame_has_nothing():
    bench = Bench()
    high = job("high", Priority.HIGH)
    assert bench.takes(high, 5 * MS) == [bench.low]
    assert (high.near, bench.low.near) == (RESERVED, NONE)
    assert bench.way.stopped is bench.low


def test_a_stop_that_would_help_nobody_changes_nothing():
    bench = Bench()
    before = repr(bench.way.timeline)
    high = job("high", Priority.HIGH)
    assert bench.takes(high, 5 * MS, latest_end_us=40 * MS) == []
    assert repr(bench.way.timeline) == before
    assert bench.way.stopped is None


def test_an_equal_is_stopped_only_if_its_stream_is_clearly_ahead():
    bench = Bench()
    bench.way.claims.share.charge("other", NEAR_US, 0)
    assert bench.takes(job("other", Priority.LOW), 5 * MS) == []
    ahead = Bench()
    ahead.way.claims.share.charge("low", 10 * NEAR_US, 0)
    assert ahead.takes(job("other", Priority.LOW), 5 * MS) == [ahead.low]


def test_a_run_that_is_half_done_is_stopped_only_if_its_stream_is_clearly_ahead():
    bench = Bench()
    assert bench.takes(job("high", Priority.HIGH), 30 * MS) == []
    ahead = Bench()
    ahead.way.claims.share.charge("low", 10 * NEAR_US, 0)
    assert ahead.takes(job("high", Priority.HIGH), 30 * MS) == [ahead.low]


def test_a_stream_that_got_nothing_for_long_keeps_what_it_has():
    bench = Bench()
    now_us = 2_000 * MS
    assert bench.way.claims.share.starved("low", now_us)
    assert not bench.way.claims.gives_way(bench.low, job("high", Priority.HIGH), now_us)


def test_a_stopped_run_is_no_use_of_near_and_teaches_nothing_of_it():
    bench = Bench()
    bench.takes(job("high", Priority.HIGH), 5 * MS)
    guard_us = bench.way.estimate.guard_us
    bench.way.ended(status=None, run_us=7 * MS, now_us=7 * MS)
    share = bench.way.claims.share
    assert share.rank("low", Priority.LOW, 7 * MS) == share.rank("new", Priority.LOW, 7 * MS)
    assert bench.way.estimate.guard_us == guard_us
    assert bench.way.stopped is None


def test_a_detector_that_went_on_for_long_is_asked_again_once_that_is_forgotten(monkeypatch):
    monkeypatch.setattr("edge.scheduling.near.way.FORGIVING", 0.5)
    bench = Bench()
    bench.takes(job("high", Priority.HIGH), 5 * MS)
    bench.way.ended(status=None, run_us=50 * MS, now_us=55 * MS)  # it went on for 50 ms
    bench.way.timeline.release(("high", 1))
    again = Bench()
    again.way.stop_us = bench.way.stop_us
    tries = 0
    while not again.takes(job("high", Priority.HIGH), 5 * MS):
        tries += 1
    assert 1 <= tries <= 10


def test_frames_without_near_have_it_by_their_priority_then_by_their_time():
    uncovered = Uncovered()
    jobs = [
        job("a", Priority.LOW, answer_by_us=1),
        job("b", Priority.HIGH, answer_by_us=9),
        job("c", Priority.NORMAL, answer_by_us=5),
        job("d", Priority.HIGH, answer_by_us=7),
    ]
    for one in jobs:
        one.flights["link"] = object()  # type: ignore[assignment]
        uncovered.add(one)
    assert [one.key[0] for one in uncovered] == ["d", "b", "c", "a"]
    assert importance(jobs[1]) > importance(jobs[2]) > importance(jobs[0])


def test_a_run_that_was_stopped_and_is_done_answers_a_frame_that_has_reserved_again():
    w = world(near_prior_us=33 * MS, connect=False)
    w.near_us = lambda _: 33 * MS
    w.run_frames(10, every_us=120 * MS)
    w.frame(11)
    w.run_until(w.now_us + 1 * MS)
    low = w.scheduler._table.get(("s", 11))  # noqa: SLF001 - the moment is hard to hit
    assert low is not None
    low.near = RESERVED  # as after a stop, and a far way that failed
    w.do(w.scheduler.near_done(("s", 11), status=Status.OK, run_us=33 * MS, now_us=w.now_us))
    assert w.given["s", 11].by is AnsweredBy.NEAR
