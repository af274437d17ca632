"""The outbox: how soon an answer is committed, what its callers wait, and how much of bare SQLite it gets.

Commits: answers of four streams at 15 fps and of a crowd at 500 a second through the agent's own writer, beside one
busy process per core and a worker that acknowledges. Calls: the same, and on a disk that hangs. Sustained: the same
batches of 64 records in turn through the store and through bare SQLite (the same file, rows and pragmas, WAL, no fsync,
`executemany`), checkpoints included; beside them pages as SQLite makes them, and many rows to a statement.
"""

import argparse
import contextlib
import multiprocessing
import os
import sqlite3
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from edge.links.base import Sent
from edge.outbox.file import record_inserts, schema
from edge.outbox.file.sqlite import WAL_CHECKPOINT_BYTES, SqliteOutbox
from edge.outbox.memory import Held
from edge.outbox.memory_outbox import MemoryOutbox
from edge.outbox.sending.payload_uplink import Message
from edge.outbox.store import Changes, OutboxStore
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
BARE = "bare SQLite"
BARE_4096 = "bare SQLite, pages of 4096"
BARE_TOGETHER = "bare SQLite, many rows to a statement"

Row = tuple[int | bytes | str, ...]


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
    """The same file without an outbox around it: the same tables, pragmas and rows, `executemany`, and nothing else.
    `page_bytes`: SQLite's own, to see that small pages are no handicap of the bare file. `together`: many rows to a
    statement, as the outbox does."""

    def __init__(self, path: Path, *, page_bytes: int = schema.PAGE_BYTES, together: bool = False) -> None:
        self.path = path
        self._together = together
        with contextlib.closing(sqlite3.connect(path)) as db:
            db.execute(f"PRAGMA page_size = {page_bytes}")
            db.execute("PRAGMA auto_vacuum = INCREMENTAL")
            db.execute("PRAGMA journal_mode = WAL")  # from here on neither of them changes
        schema.create(path)
        self.db = schema.connect(path)
        assert self.db.execute("PRAGMA page_size").fetchone() == (page_bytes,)
        assert self.db.execute("PRAGMA auto_vacuum").fetchone() == (2,), "incremental, as the outbox has it"

    def commit(self, rows: list[Row]) -> None:
        self.db.execute("BEGIN IMMEDIATE")
        if self._together:
            record_inserts.insert(self.db, [value for row in rows for value in row])
        else:
            self.db.executemany(record_inserts.insert_of(1), rows)
        self.db.execute("COMMIT")
        if self.path.with_name(self.path.name + "-wal").stat().st_size >= WAL_CHECKPOINT_BYTES:
            self.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


@dataclass(frozen=True, slots=True)
class Batch:
    """What the outbox is given, and the rows that come of it, for those that make none."""

    changes: Changes
    rows: list[Row]


def batch_from(seq: int) -> Batch:
    entries = [Held(record(n, boxes=BOXES), 0).entry(0) for n in range(seq, seq + BATCH)]
    rows: list[Row] = [
        (seq + i, *e.key, e.priority, -e.age_us, e.data, schema.record_crc(*e.key, e.data))
        for i, e in enumerate(entries)
    ]
    return Batch(Changes(entries=entries), rows)


def sustained(root: Path, blocks: int) -> dict[str, Any]:
    """Records a second of each, in blocks that take turns."""
    store = SqliteOutbox(root / "sustained.db")
    store.open(0)
    bare = {
        BARE: Bare(root / "bare.db"),
        BARE_4096: Bare(root / "bare-4096.db", page_bytes=4096),
        BARE_TOGETHER: Bare(root / "bare-together.db", together=True),
    }
    arms: dict[str, Callable[[Batch], None]] = {"outbox": lambda batch: store.commit(batch.changes, 0)}
    for name, db in bare.items():
        arms[name] = lambda batch, commit=db.commit: commit(batch.rows)  # type: ignore[misc]
    spent_us: dict[str, list[int]] = {name: [] for name in arms}
    cpu_us: dict[str, float] = dict.fromkeys(arms, 0.0)
    names = list(arms)
    for block in range(blocks):
        batches = [batch_from(1 + (block * BLOCK + i) * BATCH) for i in range(BLOCK)]
        for name in names:
            begun_us, begun_cpu_ns = monotonic_us(), time.thread_time_ns()
            for batch in batches:
                arms[name](batch)
            spent_us[name].append(monotonic_us() - begun_us)
            cpu_us[name] += (time.thread_time_ns() - begun_cpu_ns) / 1000
        names.append(names.pop(0))
    kept = store.ledger().pending
    store.close(0)
    for db in bare.values():
        assert db.db.execute("SELECT count(*) FROM records").fetchone() == (kept,)
        db.db.close()
    total_us = {name: sum(spent) for name, spent in spent_us.items()}
    return {
        "records_per_s": {name: round(kept / us * 1e6) for name, us in total_us.items()},
        "share": {name: round(total_us[name] / total_us["outbox"], 3) for name in bare},
        "share by CPU time": {name: round(cpu_us[name] / cpu_us["outbox"], 3) for name in bare},
        "share, median block": {
            name: round(
                statistics.median(
                    theirs / ours for theirs, ours in zip(spent_us[name], spent_us["outbox"], strict=True)
                ),
                3,
            )
            for name in bare
        },
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
        found = sustained(root, blocks)
        report.figures["sustained"] = found
        for name in (BARE, BARE_4096):
            report.at_least(f"sustained, share of {name}", SHARE, found["share"][name])


if __name__ == "__main__":
    run("outbox", measure, values={"folder": "where the files go; left out: the temporary folder"})
