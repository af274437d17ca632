"""Commits are as frequent as they may be while they are quick, and grouped where they are not."""

from functools import partial
from itertools import pairwise

import pytest

from cloud.store.pace import COMPANY, LONGEST_US, MOST, SHARE, CommitPace
from cloud.store.writer import Entry, StoreWriter
from pipelines.frame import FrameId
from pipelines.result import AnsweredBy, Record, Status
from pipelines.runtime import monotonic_us
from tests.support.eventually import eventually

EVERY_US = 20_000
MANY = COMPANY  # rows in each gap: more company is not worth waiting for


def _took(pace: CommitPace, took_us: int, *, rows: int = MANY) -> None:
    pace.took(took_us, rows=rows, since_us=pace.gap_us)


def test_quick_commits_come_as_often_as_they_may() -> None:
    pace = CommitPace(EVERY_US)
    assert pace.gap_us == EVERY_US
    _took(pace, EVERY_US // SHARE, rows=1)
    assert pace.gap_us == EVERY_US


def test_slow_commits_leave_nineteen_twentieths_of_the_time_to_others_within_a_bound() -> None:
    pace = CommitPace(EVERY_US)
    _took(pace, 1_500)
    assert pace.gap_us == 30_000
    _took(pace, 4_000_000)
    assert pace.gap_us == MOST * EVERY_US


@pytest.mark.parametrize("per_s", [1, 15, 45, 90, 200, 500, 5_000])
def test_where_few_rows_come_a_slow_commit_waits_for_company_and_no_longer(per_s: int) -> None:
    pace = CommitPace(EVERY_US)
    for _ in range(60):
        _took(pace, 50_000, rows=max(1, per_s * pace.gap_us // 1_000_000))
    together = per_s * pace.gap_us / 1e6
    assert MOST * EVERY_US <= pace.gap_us <= LONGEST_US
    assert pace.gap_us == MOST * EVERY_US or together <= COMPANY + 1
    assert pace.gap_us == LONGEST_US or together >= COMPANY - 2


def test_where_many_rows_come_all_at_once_the_next_but_one_acknowledgement_is_as_quick_as_may_be() -> None:
    pace = CommitPace(EVERY_US)
    for _ in range(60):
        _took(pace, 50_000, rows=1)
    assert pace.gap_us == LONGEST_US
    _took(pace, 50_000, rows=LONGEST_US * 500 // 1_000_000)
    assert pace.gap_us == MOST * EVERY_US


def test_one_slow_commit_is_forgotten_after_some_quick_ones() -> None:
    pace = CommitPace(EVERY_US)
    _took(pace, 5_000)
    for _ in range(40):
        _took(pace, 800)
    assert pace.gap_us == EVERY_US


def test_who_wants_every_commit_at_once_has_it_however_slow_they_are() -> None:
    pace = CommitPace(0)
    _took(pace, 50_000, rows=1)
    assert pace.gap_us == 0


class SlowStore:
    """Notes when it was asked to commit, and how many; `clock` goes on by what a commit takes."""

    def __init__(self, took_us: int) -> None:
        self._took_us = took_us
        self._paused_us = 0
        self.begun_us: list[int] = []

    def commit(self, **_: object) -> None:
        self.begun_us.append(self.clock_us())
        self._paused_us += self._took_us

    def clock_us(self) -> int:
        return monotonic_us() + self._paused_us


def _has_more_than(store: SlowStore, commits: int) -> bool:
    return len(store.begun_us) > commits


def _entry(seq: int, *, batch: int | None = None, awaited: bool = False) -> Entry:
    record = Record(id=FrameId("gw", bytes(16), "door", seq), answered_by=AnsweredBy.FAR, status=Status.OK)
    return Entry(far=[record], batch=batch, awaited=awaited)


@pytest.mark.parametrize(
    ("batch", "awaited", "least_us"),
    [(None, False, MOST * EVERY_US), (1, False, EVERY_US), (None, True, EVERY_US)],
    ids=["live results", "a batch", "a client's result"],
)
def test_live_results_wait_for_company_on_a_slow_store_and_what_somebody_waits_for_does_not(
    batch: int | None, awaited: bool, least_us: int
) -> None:
    store = SlowStore(took_us=10_000)
    writer = StoreWriter(
        store,
        commit_every_us=EVERY_US,
        acknowledge=lambda _: None,
        clock_us=store.clock_us,
        unix_us=lambda: 1,
    )
    writer.start()
    try:
        for seq in range(3):
            before = len(store.begun_us)
            writer.submit(_entry(seq, batch=batch, awaited=awaited))
            eventually(partial(_has_more_than, store, before), what="a commit")
        gaps_us = [b - a for a, b in pairwise(store.begun_us)]
        assert min(gaps_us) >= least_us
        if awaited or batch is not None:
            assert min(gaps_us) < MOST * EVERY_US
    finally:
        writer.stop(1_000_000)
