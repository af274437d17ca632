"""What went with a queue that is damaged, empty or gone at start: counted, or said to be unknown."""

import sqlite3
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest

from edge.outbox.stats import OutboxStats
from edge.sinks.base import SinkThread
from edge.sinks.delivery.postman import PostSight
from edge.sinks.delivery.queue import QueueSink
from edge.sinks.delivery.spool_count import SpoolCount
from edge.sinks.delivery.spool_file import SpoolFile
from edge.telemetry.promises import broken_promises
from tests.support.spools import Clock, broken_behind, deliver, put, seqs, sight, spool


@pytest.fixture
def clock():
    return Clock()


def test_of_a_queue_that_is_damaged_at_start_every_answer_counts_as_set_aside(clock, tmp_path, caplog):
    path = tmp_path / "q.db"
    before = spool(clock, file=SpoolFile(path))
    put(before, *range(1, 200))
    deliver(before, 10)
    before.close()
    broken_behind(path, first_byte=0)
    queue = spool(clock, file=SpoolFile(path))
    put(queue, 200)
    seen = sight(queue)
    assert (seen.inherited, seen.taken, seen.set_aside, seen.waiting) == (189, 1, 189, 1)
    assert "at least 189 answers are set aside" in caplog.text
    assert seen.uncounted == ()
    assert seqs(queue) == [200]
    queue.close()
    again = spool(clock, file=SpoolFile(path))
    assert (sight(again).inherited, sight(again).set_aside) == (1, 0), "what is lost is counted once"
    again.close()


def test_a_queue_that_is_empty_or_gone_at_start_is_said_and_counted(clock, tmp_path, caplog):
    path = tmp_path / "q.db"
    before = spool(clock, file=SpoolFile(path))
    put(before, 1, 2, 3)
    before.close()
    path.write_bytes(b"")
    queue = spool(clock, file=SpoolFile(path))
    assert (sight(queue).inherited, sight(queue).set_aside) == (3, 3)
    assert "3 answers are gone" in caplog.text
    queue.close()


def test_where_nobody_knows_what_a_damaged_queue_held_that_is_said_and_what_can_be_read_counts(
    clock, tmp_path, caplog
):
    path = tmp_path / "q.db"
    before = spool(clock, file=SpoolFile(path))
    put(before, *range(1, 200))
    before.close()
    path.with_name("q.db.count").unlink()
    broken_behind(path, first_byte=24 * 1024)
    queue = spool(clock, file=SpoolFile(path))
    put(queue, 200)
    seen = sight(queue)
    assert 0 < seen.set_aside < 199
    assert (seen.inherited, seen.taken, seen.waiting) == (seen.set_aside, 1, 1)
    assert f"nobody knows how many were on it, at least {seen.set_aside} answers are set aside" in caplog.text
    assert seen.uncounted == ("q.db.damaged-1",)
    assert seqs(queue) == [200]
    queue.close()


def test_an_unknown_loss_is_said_on_healthz_and_at_the_end(clock, tmp_path):
    path = tmp_path / "q.db"
    path.write_bytes(b"not a database " * 100)
    queue = spool(clock, file=SpoolFile(path))
    postman: Any = SimpleNamespace(
        sight=lambda: PostSight(failing="", failing_us=0, retries=0, restarts=0),
        wake=lambda: None,
        close=lambda: None,
    )
    sink = SinkThread(QueueSink(spool=queue, postman=postman, durable=True), name="plant")
    words = "an unknown number of answers was lost with q.db.damaged-1"
    assert sink.trouble == words
    assert sink.summary()["uncounted_files"] == 1
    sink.close()
    broken = broken_promises(
        source_errors={}, unaccounted=0, outbox=OutboxStats(), kept=True, sinks=[sink], run_dir=None
    )
    assert broken == [f"sink plant: {words}"]


def test_looking_into_a_damaged_queue_leaves_nothing_beside_it_and_its_log_goes_along(clock, tmp_path):
    path = tmp_path / "q.db"
    before = spool(clock, file=SpoolFile(path))
    put(before, *range(1, 200))
    before.close()
    broken_behind(path, first_byte=1024)
    queue = spool(clock, file=SpoolFile(path))
    assert [p.name for p in tmp_path.glob("*damaged*")] == ["q.db.damaged-1"]
    put(queue, *range(200, 400))
    queue.close()
    file = SpoolFile(path)
    queue = spool(clock, file=file)
    with closing(sqlite3.connect(path)) as other:  # whoever looks meanwhile keeps the log where it is
        put(queue, 400)
        assert other.execute("SELECT count(*) FROM parcels").fetchone() == (201,)
        log = path.with_name("q.db-wal")
        kept = log.read_bytes()
        file.let_go()
        broken_behind(path, first_byte=1024)
        assert seqs(queue) == []
    assert path.with_name("q.db.damaged-2-wal").read_bytes() == kept
    assert path.with_name("q.db.damaged-2-shm").exists()
    assert not log.exists() or log.read_bytes() != kept
    queue.close()


def test_the_count_beside_a_queue_is_close_after_a_kill_and_written_rarely(clock, tmp_path):
    count = SpoolCount(tmp_path / "q.db")
    written = [rows for rows in range(101) if count.keep(rows, uptime_us=1_000 * rows, at_once=rows == 0)]
    assert written == [0, 1, 2, 4, 8, 16, 32, 64]
    assert count.read() == 64
    bounces = sum(count.keep(64 + turn % 2, uptime_us=6_000_000 + turn) > 0 for turn in range(1000))
    assert bounces <= 1
    assert not (tmp_path / "q.db.count.new").exists()
    count.path.write_text("no number")
    assert count.read() is None
