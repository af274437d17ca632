"""The outbox: how soon an answer is committed, what its callers wait, and how much of bare SQLite it gets.

Commits: answers of four streams at 15 fps and of a crowd at 500 a second through the agent's own writer, beside one
busy process per core and a worker that acknowledges. Calls: the same, and on a disk that hangs. Sustained: the same
batches of 64 records in turn through the store and through bare SQLite (same tables and indexes, WAL, no fsync,
`executemany`), checkpoints included.
"""

import argparse
import contextlib
import multiprocessing
import os
import sqlite3
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from edge.links.base import Sent
from edge.outbox.memory import Held
from edge.outbox.payload_uplink import Message
from edge.outbox.sqlite import WAL_CHECKPOINT_BYTES, SqliteOutbox
from edge.outbox.store import Changes, Entry, MemoryOutbox, OutboxStore
from edge.outbox.writer import OutboxWriter
from pipelines import runtime
from pipelines.frame import FrameId
from pipelines.runtime import monotonic_us
from protos.wire.bulk import Ack, BulkBatch
from tests.bench.report import Report, run, summary_ms
from tests.support.outboxes import AGENT, LIMITS, RUN, record

DURABILITIES: tuple[Literal["process", "power"], ...] = ("process", "power")
BATCH = 64
BLOCK = 8
BOXES = 5
COMMIT_P99_MS = 75.0
CALL_P999_MS = 1.0
SHARE = 0.8


class Writing:
    """The agent's writer over `store`, with a worker that acknowledges what it is sent after 20 ms."""

    def __init__(self, store: OutboxStore) -> None:
        self.appended_us: dict[int, int] = {}
        self.committed_us: dict[int, int] = {}
        self.calls_us: list[int] = []
        self._timers: list[threading.Timer] = []
        self.writer = OutboxWriter(
            store=store,
            agent=AGENT,
            run=RUN,
            clock_us=monotonic_us,
            on_committed=self._committed,
            send=self._send,
        )

    def _committed(self, frame_id: FrameId) -> None:
        self.committed_us[frame_id.seq] = monotonic_us()

    def _send(self, message: Message) -> Sent:
        assert isinstance(message, BulkBatch), "no payload is kept here"
        timer = threading.Timer(0.02, self.writer.acked_bulk, [Ack(batches=(message.batch,))])
        self._timers = [t for t in self._timers if t.is_alive()] + [timer]
        timer.start()
        return Sent.ACCEPTED

    def append(self, seq: int) -> None:
        item = record(seq, boxes=BOXES)
        begun_us = monotonic_us()
        self.writer.captured("door", seq)
        self.writer.append(item)
        self.writer.settled("door", seq)
        done_us = monotonic_us()
        self.appended_us[seq] = begun_us
        self.calls_us.append(done_us - begun_us)

    def at(self, rate: int, seconds: float) -> None:
        begun_us = monotonic_us()
        for number in range(int(rate * seconds)):
            wait_us = begun_us + number * 1_000_000 // rate - monotonic_us()
            if wait_us > 0:
                time.sleep(wait_us / 1e6)
            self.append(number + 1)

    @property
    def commits_us(self) -> list[int]:
        return [self.committed_us[seq] - at_us for seq, at_us in self.appended_us.items()]

    def close(self) -> None:
        for timer in self._timers:
            timer.join()


def _burn(parent: int) -> None:
    while os.getppid() == parent:
        for _ in range(100_000):
            pass


@contextlib.contextmanager
def busy() -> Iterator[None]:
    """One process per core that never rests."""
    context = multiprocessing.get_context("spawn")
    hogs = [context.Process(target=_burn, args=(os.getpid(),)) for _ in range(os.cpu_count() or 1)]
    for hog in hogs:
        hog.start()
    try:
        yield
    finally:
        for hog in hogs:
            hog.kill()
            hog.join()


def commits(root: Path, durability: Literal["process", "power"], rate: int, seconds: float) -> dict[str, Any]:
    store = SqliteOutbox(root / f"{durability}-{rate}.db", durability=durability)
    writing = Writing(store)
    writing.writer.start()
    writing.writer.reachable(connected=True, limits=LIMITS)
    with busy():
        writing.at(rate, seconds)
        stopped = writing.writer.stop(10_000_000)
    writing.close()
    ledger = store.ledger()
    return {
        "append_to_commit_ms": summary_ms(writing.commits_us),
        "calls_ms": _summary(writing.calls_us),
        "acked_meanwhile": ledger.acked,
        "all_committed": stopped and ledger.balance == 0 and len(writing.committed_us) == int(rate * seconds),
        "flash_gb_per_day": round(ledger.flash_bytes_written / 1e9 * 86400 / seconds, 2),
    }


def _summary(values_us: list[int]) -> dict[str, float]:
    ordered = sorted(values_us)
    return summary_ms(values_us) | {"p99.9": ordered[max(0, int(len(ordered) * 0.999) - 1)] / 1000}


def calls_while_hanging(count: int) -> dict[str, float]:
    """The dispatcher's calls while no commit returns."""
    let_go = threading.Event()

    class Hanging(MemoryOutbox):
        def commit(self, changes: Changes, now_us: int) -> None:
            let_go.wait(30.0)
            super().commit(changes, now_us)

    writing = Writing(Hanging())
    starter = threading.Thread(target=writing.writer.start)
    starter.start()
    for seq in range(1, count + 1):
        writing.append(seq)
    let_go.set()
    starter.join()
    writing.writer.stop(10_000_000)
    return _summary(writing.calls_us)


class Bare:
    """The same table and indexes, filled by `executemany` and emptied by number."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.db = sqlite3.connect(path, isolation_level=None)
        for pragma in (
            "auto_vacuum = INCREMENTAL",
            "journal_mode = WAL",
            "synchronous = NORMAL",
            "wal_autocheckpoint = 0",
        ):
            self.db.execute(f"PRAGMA {pragma}")
        self.db.execute(
            "CREATE TABLE records (entry INTEGER PRIMARY KEY, run BLOB NOT NULL, stream TEXT NOT NULL, "
            "seq INTEGER NOT NULL, priority INTEGER NOT NULL, born_us INTEGER NOT NULL, data BLOB NOT NULL, "
            "UNIQUE (run, stream, seq))"
        )
        self.db.execute("CREATE INDEX records_by_worth ON records (priority, born_us, entry)")
        self.number = 0

    def commit(self, batch: list[Entry]) -> None:
        rows = []
        for item in batch:
            self.number += 1
            rows.append((self.number, *item.key, item.priority, item.age_us, item.data))
        self.db.execute("BEGIN IMMEDIATE")
        self.db.executemany("INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
        self.db.execute("COMMIT")
        if self.path.with_name(self.path.name + "-wal").stat().st_size >= WAL_CHECKPOINT_BYTES:
            self.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def sustained(root: Path, blocks: int) -> dict[str, float]:
    """Records a second of each, in blocks that take turns."""
    store, bare = SqliteOutbox(root / "sustained.db"), Bare(root / "bare.db")
    store.open(0)
    spent = {"outbox": 0, "bare": 0}
    seq = 0
    for block in range(blocks):
        batches = []
        for _ in range(BLOCK):
            batches.append(
                [Held(record(n, boxes=BOXES), 0).entry(0) for n in range(seq + 1, seq + BATCH + 1)]
            )
            seq += BATCH
        for who in ("outbox", "bare") if block % 2 else ("bare", "outbox"):
            begun_us = monotonic_us()
            for batch in batches:
                if who == "bare":
                    bare.commit(batch)
                else:
                    store.commit(Changes(entries=batch), 0)
            spent[who] += monotonic_us() - begun_us
    kept = store.ledger().pending
    store.close(0)
    bare.db.close()
    return {who: round(kept / us * 1e6) for who, us in spent.items()} | {
        "share": round(spent["bare"] / spent["outbox"], 3)
    }


def measure(report: Report, arguments: argparse.Namespace) -> None:
    """How soon answers are committed, what calls cost, and the share of bare SQLite's records a second."""
    seconds, blocks, count = (4.0, 30, 5_000) if arguments.quick else (30.0, 200, 50_000)
    runtime.tune()
    with tempfile.TemporaryDirectory(dir=arguments.folder or None) as folder:
        root = Path(folder)
        for durability in DURABILITIES:
            for rate in (60, 500):
                found = commits(root, durability, rate, seconds)
                name = f"{durability}, {rate}/s"
                report.figures[name] = found
                report.at_most(
                    f"{name}: append to commit p99 ms", COMMIT_P99_MS, found["append_to_commit_ms"]["p99"]
                )
                report.at_least(f"{name}: every answer committed", 1, int(found["all_committed"]))
        hanging = calls_while_hanging(count)
        report.figures["calls while the disk hangs, ms"] = hanging
        report.at_most("calls while the disk hangs, p99.9 ms", CALL_P999_MS, hanging["p99.9"])
        shares = sustained(root, blocks)
        report.figures["sustained records/s"] = shares
        report.at_least("sustained, share of bare SQLite", SHARE, shares["share"])


if __name__ == "__main__":
    run("outbox", measure, values={"folder": "where the files go; left out: the temporary folder"})
