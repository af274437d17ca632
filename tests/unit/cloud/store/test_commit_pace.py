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


def test_quick_commits_come_as_often_as_they_may() -> None:
    pace = CommitPace(EVERY_US)
    assert pace.gap_us(1) == EVERY_US
    pace.took(EVERY_US // SHARE)
    assert pace.gap_us(1) == EVERY_US


def test_slow_commits_of_many_rows_leave_nineteen_twentieths_of_the_time_to_others_within_a_bound() -> None:
    pace = CommitPace(EVERY_US)
    pace.took(1_500)
    assert pace.gap_us(COMPANY) == 30_000
    pace.took(4_000_000)
    assert pace.gap_us(COMPANY) == MOST * EVERY_US


def test_a_slow_commit_of_few_rows_waits_for_company_within_a_longer_bound() -> None:
    pace = CommitPace(EVERY_US)
    pace.took(4_000)
    assert pace.gap_us(COMPANY - 1) == 80_000
    pace.took(4_000_000)
    assert pace.gap_us(COMPANY - 1) == LONGEST_US


def test_one_slow_commit_is_forgotten_after_some_quick_ones() -> None:
    pace = CommitPace(EVERY_US)
    pace.took(5_000)
    for _ in range(40):
        pace.took(800)
    assert pace.gap_us(1) == EVERY_US


def test_who_wants_every_commit_at_once_has_it_however_slow_they_are() -> None:
    pace = CommitPace(0)
    pace.took(50_000)
    assert pace.gap_us(1) == 0


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


def _writer(store: SlowStore) -> StoreWriter:
    return StoreWriter(
        store,
        commit_every_us=EVERY_US,
        acknowledge=lambda _: None,
        clock_us=store.clock_us,
        unix_us=lambda: 1,
    )


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
    writer = _writer(store)
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


def test_rows_that_wait_for_company_are_written_once_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cloud.store.pace.LONGEST_US", 3_600_000_000)
    store = SlowStore(took_us=1_000_000_000)
    writer = _writer(store)
    writer.start()
    try:
        writer.submit(_entry(0))
        eventually(lambda: writer.pending == 0, what="the first commit, which waits for nobody")
        for seq in range(1, COMPANY):
            writer.submit(_entry(seq))
        assert writer.pending == COMPANY - 1
        writer.submit(_entry(COMPANY))
        eventually(lambda: writer.committed == COMPANY + 1, what="a commit of all of them")
        assert len(store.begun_us) == 2
    finally:
        writer.stop(1_000_000)
