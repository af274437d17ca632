"""How many records a second the record store takes in, and how soon after a result its ack may go.

Ingest: batches as agents send them, unpacked, committed and acknowledged by the worker's own writer. Acks: single
results at 500 a second, with 20 ms between commits as by default, alone and while old records are pruned beside. On
SQLite, with every commit on the disk; on PostgreSQL too, as figures without bars, where its server is installed.
"""

import argparse
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from cloud.keeping.batches import batch_entry
from cloud.limits import ServiceLimits
from cloud.store.records import RecordStore, open_store
from cloud.store.retention import Retention
from cloud.store.writer import Entry, StoreWriter
from pipelines import runtime
from pipelines.frame import FrameId
from pipelines.result import AnsweredBy, Detections, Record, Status
from pipelines.runtime import monotonic_us
from protos.wire.bulk import BulkBatch
from protos.wire.records import pack
from tests.bench.report import Report, run, summary_ms
from tests.support.postgres import PostgresServer
from tests.support.programs import program

BOXES = 5
BATCH = 256
RATE = 500
COMMIT_EVERY_US = 20_000
RUN = bytes(range(16))


def record(seq: int, by: AnsweredBy) -> Record:
    boxes = np.random.default_rng(seq).random((BOXES, 4), np.float32) * 640
    return Record(
        id=FrameId("gateway", RUN, "door", seq),
        answered_by=by,
        status=Status.OK,
        latency_us=40_000,
        on_time=True,
        captured_unix_us=1_700_000_000_000_000 + seq,
        detections=Detections(
            boxes, np.full(BOXES, 0.7, np.float32), np.zeros(BOXES, np.uint16), ("person",)
        ),
        model="yolox_nano@512x512",
        model_sha256="ab" * 32,
        timing_us={"encode": 3000, "queue": 500, "decode": 2500, "detect": 20_000, "return": 9000},
    )


class Writing:
    """A writer with its store; `acked_us` is how long each entry took from submission to its acknowledgement."""

    def __init__(self, store: RecordStore, commit_every_us: int) -> None:
        self.acked_us: list[int] = []
        self.writer = StoreWriter(
            store,
            commit_every_us=commit_every_us,
            acknowledge=self._acknowledge,
            clock_us=monotonic_us,
            unix_us=lambda: time.time_ns() // 1000,
            max_pending=1_000_000,
        )

    def _acknowledge(self, entries: Sequence[Entry]) -> None:
        now_us = monotonic_us()
        self.acked_us += [now_us - entry.submitted_us for entry in entries]

    def __enter__(self) -> Self:
        self.writer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.writer.stop(5_000_000)


def ingest(store: RecordStore, count: int) -> float:
    """Records a second, from packed batches to acks."""
    batches = []
    for number in range(count // BATCH):
        data, size_bytes = pack(record(1 + number * BATCH + n, AnsweredBy.NEAR) for n in range(BATCH))
        batches.append(BulkBatch(batch=number + 1, records_zstd=data, records_bytes=size_bytes))
    limits = ServiceLimits()
    with Writing(store, COMMIT_EVERY_US) as writing:
        begun_us = monotonic_us()
        for batch in batches:
            writing.writer.submit(batch_entry("gateway", batch, limits))
        writing.writer.flush(120_000_000)
        took_us = monotonic_us() - begun_us
        stored = writing.writer.committed
    return stored / took_us * 1e6


def acks(store: RecordStore, seconds: float, first: int) -> list[int]:
    """µs from each of `RATE` results a second to its ack."""
    count = int(seconds * RATE)
    results = [record(first + n, AnsweredBy.FAR) for n in range(count)]
    with Writing(store, COMMIT_EVERY_US) as writing:
        begun_us = monotonic_us()
        for number, result in enumerate(results):
            wait_us = begun_us + number * 1_000_000 // RATE - monotonic_us()
            if wait_us > 0:
                time.sleep(wait_us / 1e6)
            writing.writer.submit(Entry(far=[result], submitted_us=monotonic_us()))
        writing.writer.flush(10_000_000)
        return list(writing.acked_us)


def beside(work: Callable[[], object], every_s: float) -> tuple[threading.Thread, threading.Event]:
    """`work` again and again on a thread of its own."""
    stop = threading.Event()

    def loop() -> None:
        while not stop.wait(every_s):
            work()

    thread = threading.Thread(target=loop, daemon=True)
    thread.start()
    return thread, stop


def figures(store: RecordStore, *, count: int, seconds: float) -> dict[str, Any]:
    found: dict[str, Any] = {"ingest_records_per_s": round(ingest(store, count))}
    found["ack_ms"] = summary_ms(acks(store, seconds, 10_000_000))
    old = [record(20_000_000 + n, AnsweredBy.NEAR) for n in range(count)]
    store.commit(given=old, now_unix_us=1)
    retention = Retention(store, None)
    pruned: list[int] = []
    thread, stop = beside(lambda: pruned.append(retention.prune(1_000).records), 0.1)
    try:
        found["ack_while_pruning_ms"] = summary_ms(acks(store, seconds, 30_000_000))
    finally:
        stop.set()
        thread.join(10.0)
    found["pruned_beside"] = sum(pruned)
    return found


def measure(report: Report, arguments: argparse.Namespace) -> None:
    """Records a second and the time to an ack, on SQLite and, if it is there, on PostgreSQL."""
    count, seconds = (10_000, 4.0) if arguments.quick else (50_000, 20.0)
    runtime.tune()
    with tempfile.TemporaryDirectory() as root, open_store(f"sqlite:///{Path(root)}/records.db") as store:
        sqlite = figures(store, count=count, seconds=seconds)
    report.figures["sqlite"] = sqlite
    report.at_least("sqlite: result records/s", 2000, sqlite["ingest_records_per_s"])
    report.at_most(f"sqlite: ack at {RATE}/s, p99 ms", 50.0, sqlite["ack_ms"]["p99"])
    report.at_most(
        f"sqlite: ack at {RATE}/s while old records are pruned, p99 ms",
        50.0,
        sqlite["ack_while_pruning_ms"]["p99"],
    )
    if program("postgres") is None:
        report.figures["postgres"] = "not installed"
        return
    with PostgresServer(durable=True) as server, open_store(server.new_url()) as store:
        report.figures["postgres"] = figures(store, count=count, seconds=seconds)


if __name__ == "__main__":
    run("store", measure)
