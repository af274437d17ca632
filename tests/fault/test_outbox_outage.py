"""A worker that is away for hours while the cameras run: bounded, counted, one file, and all of it up in the end."""

from pathlib import Path

from edge.links.base import Sent
from edge.outbox.bounds import Bounds
from edge.outbox.file.sqlite import SqliteOutbox
from pipelines.result import GapReason
from tests.support.outage import long_outage
from tests.support.outboxes import SECOND, Desk, record


def test_an_outage_at_15_fps_loses_nothing_keeps_memory_flat_and_gives_the_space_back(tmp_path: Path) -> None:
    seen = long_outage(tmp_path, minutes=2, fps=15)
    assert seen.answers == 10 * 15 + 2 * 60 * 15
    assert (seen.lost, seen.twice) == (0, 0)
    assert seen.high_priority_first
    assert seen.grown_mb < 1.0
    assert seen.file_mb_after < seen.file_mb / 5


def test_hours_without_a_worker_stay_within_the_bounds_and_what_is_given_up_is_named(tmp_path: Path) -> None:
    bounds = Bounds(max_bytes=200_000)
    desk = Desk(SqliteOutbox(tmp_path / "outbox.db", bounds=bounds))
    for seq in range(1, 3001):
        desk.keeper.captured("door", seq)
        desk.keeper.append(record(seq), desk.now_us)
        desk.go(4 * SECOND)
        desk.keeper.settled("door", seq)
    stats = desk.keeper.stats()
    assert stats.bytes <= bounds.max_bytes
    assert stats.evicted["bytes"] == 3000 - stats.pending
    assert (stats.lost, stats.balance) == (0, 0)
    assert (tmp_path / "outbox.db").stat().st_size < 4 * bounds.max_bytes
    desk.connect()
    records: set[int] = set()
    gaps: set[int] = set()
    while not desk.keeper.stats().empty:
        desk.go(SECOND)
        for batch in desk.cloud.batches:
            assert all(g.reason is GapReason.EVICTED for g in batch.gaps)
            gaps |= {n for g in batch.gaps for n in range(g.first, g.last + 1)}
        records |= {r.id.seq for r in desk.deliver()}
    assert records | gaps == set(range(1, 3001)), "each frame is there, or its loss is explained"
    assert records & gaps == set()
    desk.store.close(desk.now_us)


def test_a_link_that_comes_and_goes_makes_no_files(tmp_path: Path) -> None:
    desk = Desk(SqliteOutbox(tmp_path / "outbox.db"))
    files = set()
    for seq in range(1, 201):
        desk.keeper.append(record(seq), desk.now_us)
        (desk.connect if seq % 3 else desk.disconnect)()
        desk.cloud.sent = Sent.ACCEPTED if seq % 5 else Sent.FULL
        desk.go(SECOND // 2)
        if seq % 7 == 0:
            desk.deliver()
        files |= {p.name for p in tmp_path.iterdir()}
    assert files == {"outbox.db", "outbox.db-wal", "outbox.db-shm"}
    desk.store.close(desk.now_us)


def test_a_send_that_was_not_taken_is_no_success(tmp_path: Path) -> None:
    desk = Desk(SqliteOutbox(tmp_path / "outbox.db"))
    desk.connect()
    for refusal in (Sent.FULL, Sent.DOWN, Sent.TOO_LARGE):
        desk.cloud.sent = refusal
        desk.keeper.append(record(1), desk.now_us)
        desk.go(SECOND)
        stats = desk.keeper.stats()
        assert (stats.batches_sent, stats.pending, stats.acked) == (0, 1, 0)
    desk.cloud.sent = Sent.ACCEPTED
    desk.go(SECOND)
    assert [r.id.seq for r in desk.deliver()] == [1]
    desk.store.close(desk.now_us)


def test_power_durability_forces_out_what_was_committed_within_50_ms_under_a_constant_load(
    tmp_path: Path,
) -> None:
    synced: list[int] = []
    committed: list[int] = []

    class Noted(SqliteOutbox):
        def sync(self) -> None:
            synced.append(desk.now_us)
            super().sync()

    desk = Desk(Noted(tmp_path / "outbox.db", durability="power"))
    for seq in range(1, 301):
        desk.keeper.append(record(seq), desk.now_us)
        desk.turn()
        committed.append(desk.now_us)
        desk.go(7_000)
    desk.go(SECOND)
    for at_us in committed:
        assert any(at_us <= s <= at_us + 57_000 for s in synced), "50 ms, and the turn that was under way"
    assert len(synced) < len(committed) / 4, "many commits share one"
    desk.store.close(desk.now_us)
