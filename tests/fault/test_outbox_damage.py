"""The outbox file under damage: whatever is broken, nothing untrue is given out and nothing is lost in silence."""

import logging
import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from edge.outbox.file import schema
from edge.outbox.file.sqlite import SqliteOutbox
from edge.outbox.store import Changes, Entry, Watermark
from pipelines.errors import ConfigError, Retryable
from pipelines.result import GapReason
from tests.support.outboxes import RUN, SECOND, Desk, entry
from tests.support.storages import copy_as_it_lies

RECORDS = 60
PAGE = schema.PAGE_BYTES


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "edge.outbox.file.sqlite")


def entries(count: int = RECORDS) -> list[Entry]:
    return [entry(n, size=200 + n, priority=n % 3) for n in range(1, count + 1)]


def filled(path: Path, *, closed: bool = True) -> SqliteOutbox:
    """An outbox with RECORDS records, in the file (closed) or still in the WAL, the last ten of them acknowledged."""
    store = SqliteOutbox(path)
    for item in entries():
        mark = Watermark(run=RUN, stream="door", reserved=256, settled=item.key[2])
        store.commit(Changes(entries=[item], marks=[mark]), 0)
    last = [s.number for s in store.peek(limit=RECORDS, max_bytes=1 << 20) if s.key[2] > RECORDS - 10]
    store.commit(Changes(acknowledged=last), 0)
    if closed:
        store.close(0)
    return store


def drained(store: SqliteOutbox) -> dict[int, bytes]:
    """Everything it gives out, acknowledged like a cloud does."""
    got: dict[int, bytes] = {}
    while found := store.peek(limit=7, max_bytes=1 << 20):
        got |= {s.key[2]: s.data for s in found}
        store.commit(Changes(acknowledged=[s.number for s in found]), SECOND)
    return got


def explained(store: SqliteOutbox) -> set[int]:
    gaps = [g.gap for g in store.gaps(limit=1000)]
    return {n for g in gaps if g.run == RUN and g.stream == "door" for n in range(g.first, g.last + 1)}


def told_the_truth(path: Path) -> tuple[bool, int]:
    """Open the file, empty it, write to it; whether anything was found to be broken, and how many records were lost."""
    store = SqliteOutbox(path)
    store.open(0)
    got = drained(store)
    store.commit(Changes(entries=[entry(1000)]), SECOND)
    assert list(drained(store)) == [1000]
    truth = {item.key[2]: item.data for item in entries(RECORDS - 10)}
    assert got.items() <= truth.items(), (
        "what it gives out is what was put in, under the identity it was put in"
    )
    ledger = store.ledger()
    assert (ledger.balance, ledger.pending) == (0, 0)
    lost = set(truth) - set(got)
    assert not lost or ledger.set_aside or ledger.set_aside_files, f"lost in silence: {lost}"
    store.close(SECOND)
    if ledger.set_aside_files:
        with closing(sqlite3.connect(path)) as db:
            assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    return bool(ledger.set_aside or ledger.set_aside_files), len(lost)


def test_a_flipped_bit_in_any_page_gives_out_nothing_untrue_and_loses_nothing_in_silence(
    tmp_path: Path,
) -> None:
    dice = random.Random(7)
    whole = tmp_path / "whole" / "outbox.db"
    filled(whole)
    data = whole.read_bytes()
    pages = len(data) // PAGE
    assert pages >= 8
    found = lost = 0
    for number in range(pages + 20):
        offset = PAGE * (number % pages) + dice.randrange(PAGE)
        flipped = bytearray(data)
        flipped[offset] ^= 1 << dice.randrange(8)
        path = tmp_path / f"flipped-{number}" / "outbox.db"
        path.parent.mkdir()
        path.write_bytes(flipped)
        try:
            broken, missing = told_the_truth(path)
            found, lost = found + broken, lost + missing
        except ConfigError:
            assert 60 <= offset < 64, (
                f"byte {offset}: refused as a newer format, which its number may now say"
            )
    assert found > pages / 2
    assert lost / (pages + 20) < RECORDS / 20, "most of what is whole is saved"


def test_every_byte_of_the_head_may_be_wrong(tmp_path: Path) -> None:
    whole = tmp_path / "whole" / "outbox.db"
    filled(whole)
    data = whole.read_bytes()
    for offset in range(100):
        path = tmp_path / f"head-{offset}" / "outbox.db"
        path.parent.mkdir()
        path.write_bytes(data[:offset] + bytes([data[offset] ^ 0xFF]) + data[offset + 1 :])
        told_the_truth(path)


@pytest.mark.parametrize("part", ["a page", "half a page", "nearly all"])
def test_a_file_cut_short_keeps_what_is_left_and_counts_the_rest(tmp_path: Path, part: str) -> None:
    path = tmp_path / "outbox.db"
    filled(path)
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.truncate({"a page": size - PAGE, "half a page": size - PAGE // 2, "nearly all": PAGE}[part])
    broken, lost = told_the_truth(path)
    assert broken
    assert part == "nearly all" or lost < RECORDS / 2


def test_a_torn_wal_is_an_earlier_moment_and_what_came_after_is_explained(tmp_path: Path) -> None:
    """A power cut may take the last commits (`durability: process`); the next start knows which frames those were."""
    dice = random.Random(8)
    live = tmp_path / "live" / "outbox.db"
    store = filled(live, closed=False)
    wal_bytes = live.with_name("outbox.db-wal").stat().st_size
    cuts = [0, 1, 31, 32, wal_bytes - 1, *(dice.randrange(wal_bytes) for _ in range(25))]
    for number, cut in enumerate(cuts):
        path = tmp_path / f"cut-{number}" / "outbox.db"
        copy_as_it_lies(live, path)
        wal = path.with_name("outbox.db-wal")
        if number % 2:
            with wal.open("r+b") as file:
                file.truncate(cut)
        else:  # a sector that never came, in the middle of what did
            torn = bytearray(wal.read_bytes())
            torn[cut : cut + 512] = bytes(len(torn[cut : cut + 512]))
            wal.write_bytes(torn)
        desk = Desk(SqliteOutbox(path), run=b"n" * 16)
        desk.turn()
        kept = {s.key[2]: s.data for s in desk.store.peek(limit=1000, max_bytes=1 << 20)}
        assert kept.items() <= {e.key[2]: e.data for e in entries()}.items()
        assert desk.store.ledger().balance == 0
        ledger = desk.store.ledger()
        assert ledger.set_aside_files == 0
        settled = ledger.committed
        interrupted = {
            n
            for g in desk.store.gaps(limit=10)
            if g.gap.reason is GapReason.INTERRUPTED
            for n in range(g.gap.first, g.gap.last + 1)
        }
        assert set(range(settled + 1, RECORDS + 1)) <= interrupted or settled == 0
        desk.store.close(desk.now_us)
    store.close(0)


def test_a_missing_shared_memory_file_is_made_anew(tmp_path: Path) -> None:
    live, path = tmp_path / "live" / "outbox.db", tmp_path / "killed" / "outbox.db"
    store = filled(live, closed=False)
    copy_as_it_lies(live, path)
    assert [p.name for p in sorted(path.parent.iterdir())] == ["outbox.db", "outbox.db-wal"]
    store.close(0)
    again = SqliteOutbox(path)
    again.open(0)
    assert len(drained(again)) == RECORDS - 10
    assert again.ledger().set_aside_files == 0
    again.close(0)


@pytest.mark.parametrize("what", ["empty file", "folder", "wal without its file", "another database"])
def test_what_cannot_be_an_outbox_is_set_aside_and_counted(tmp_path: Path, what: str) -> None:
    path = tmp_path / "outbox.db"
    match what:
        case "empty file":
            path.touch()
        case "folder":
            path.mkdir()
            (path / "something").write_text("kept")
        case "wal without its file":
            path.with_name("outbox.db-wal").write_bytes(b"\x37\x7f\x06\x82" + bytes(4000))
        case "another database":
            with closing(sqlite3.connect(path)) as db:
                db.execute("CREATE TABLE records (name TEXT)")
    store = SqliteOutbox(path)
    store.open(0)
    store.commit(Changes(entries=[entry(1)]), 0)
    assert (store.ledger().set_aside_files, store.ledger().balance) == (1, 0)
    aside = "outbox.db.damaged-1" + ("-wal" if what.startswith("wal") else "")
    assert (tmp_path / aside).exists()
    assert list(drained(store)) == [1]
    store.close(0)


def test_a_dying_card_does_not_fill_itself_with_what_it_damaged(tmp_path: Path) -> None:
    path = tmp_path / "outbox.db"
    for n in range(1, 9):
        path.write_text(f"letter number {n}" * 100)
        store = SqliteOutbox(path)
        store.open(0)
        store.close(0)
    kept = {p.name for p in tmp_path.glob("*.damaged-*")}
    assert kept == {f"outbox.db.damaged-{n}" for n in range(4, 9)}


def test_damage_to_one_record_costs_that_record_and_a_gap_says_so(tmp_path: Path) -> None:
    path = tmp_path / "outbox.db"
    filled(path)
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE records SET data = zeroblob(40) WHERE seq = 5")
        db.execute("UPDATE records SET seq = 777 WHERE seq = 6")
        db.commit()
    store = SqliteOutbox(path)
    store.open(0)
    assert set(drained(store)) == set(range(1, 51)) - {5, 6}
    assert (store.ledger().set_aside, store.ledger().set_aside_files, store.ledger().balance) == (2, 0, 0)
    assert {5, 777} <= explained(store)
    store.close(0)


def test_a_damaged_ledger_is_not_believed_and_costs_no_record(tmp_path: Path) -> None:
    path = tmp_path / "outbox.db"
    filled(path)
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE ledger SET uptime_us = uptime_us + (1 << 50)")  # every record would be too old
        db.commit()
    store = SqliteOutbox(path)
    store.open(0)
    assert len(drained(store)) == RECORDS - 10
    ledger = store.ledger()
    assert (ledger.set_aside, ledger.set_aside_files, ledger.balance) == (0, 1, 0)
    assert ledger.evicted == {"age": 0, "bytes": 0, "purged": 0}
    store.close(0)


def test_a_full_disk_while_saving_leaves_the_rest_in_the_file_that_was_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "outbox.db"
    store = SqliteOutbox(path)
    store.commit(Changes(entries=[entry(n, size=2000) for n in range(1, 1001)]), 0)
    store.close(0)
    with closing(sqlite3.connect(path)) as db:
        db.execute("DROP TABLE gaps")
    again = SqliteOutbox(path, max_pages=1600)
    again.open(0)
    ledger = again.ledger()
    assert (ledger.committed, ledger.balance) == (1000, 0)
    assert 0 < ledger.pending < 1000
    assert ledger.set_aside == 1000 - ledger.pending
    again.close(0)


def test_damage_that_cannot_even_be_moved_away_is_retried_and_answers_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "outbox.db"
    path.write_text("a letter" * 1000)
    with monkeypatch.context() as broken:
        broken.setattr(Path, "rename", lambda *_: (_ for _ in ()).throw(OSError(30, "Read-only file system")))
        store = SqliteOutbox(path)
        with pytest.raises(Retryable, match="Read-only"):
            store.open(0)
    store.commit(Changes(entries=[entry(1)]), 0)
    assert store.ledger().set_aside_files == 1
    store.close(0)
