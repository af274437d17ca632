"""The queue of a sink on a disk that is full, cannot be read, is damaged or changed behind its back."""

import shutil
import sqlite3

import pytest

from edge.sinks.delivery.spool_file import SpoolFile
from pipelines.errors import ConfigError, Retryable
from tests.support.spools import Clock, broken_behind, deliver, put, seqs, sight, spool


@pytest.fixture
def clock():
    return Clock()


def test_on_a_full_disk_answers_wait_in_memory_and_move_to_the_disk_when_there_is_room(clock, tmp_path):
    file = SpoolFile(tmp_path / "q.db", max_pages=40)
    queue = spool(clock, file=file)
    for seq in range(1, 101):
        put(queue, seq)
    seen = sight(queue)
    assert "full" in seen.disk_error
    assert 0 < seen.sheltered < 100
    assert seqs(queue) == list(range(1, 101))
    deliver(queue, 90)
    put(queue, 101)
    assert sight(queue).disk_error == ""
    queue.close()
    assert sight(queue).abandoned == 0
    assert SpoolFile(tmp_path / "q.db").rows == 11


def test_what_was_delivered_is_not_delivered_again_while_the_disk_cannot_forget_it(clock, tmp_path):
    class Stuck(SpoolFile):
        stuck = False

        def commit(self, **change):
            if self.stuck:
                raise Retryable("read-only")
            return super().commit(**change)

    file = Stuck(tmp_path / "q.db")
    queue = spool(clock, file=file)
    put(queue, 1, 2, 3)
    file.stuck = True
    deliver(queue, 2)
    assert seqs(queue) == [3]
    assert (sight(queue).delivered, sight(queue).waiting) == (2, 1)
    put(queue, 4)
    assert seqs(queue) == [3, 4]
    assert sight(queue).disk_error == "read-only"
    file.stuck = False
    put(queue, 5)
    assert (sight(queue).delivered, sight(queue).waiting) == (2, 3)
    deliver(queue, 3)
    assert (sight(queue).delivered, sight(queue).waiting, file.rows) == (5, 0, 0)
    queue.close()


def test_a_disk_that_cannot_be_read_delays_and_nothing_overtakes_what_is_on_it(clock, tmp_path):
    class Unreadable(SpoolFile):
        away = False

        def peek(self, **what):
            if self.away:
                raise Retryable("input/output error")
            return super().peek(**what)

        def commit(self, **change):
            if self.away:
                raise Retryable("input/output error")
            return super().commit(**change)

    file = Unreadable(tmp_path / "q.db")
    queue = spool(clock, file=file)
    put(queue, 1)
    file.away = True
    put(queue, 2)
    assert seqs(queue) == []
    file.away = False
    assert seqs(queue) == [1, 2]
    queue.close()


def test_a_damaged_queue_is_set_aside_counted_and_said_and_a_new_one_goes_on(clock, tmp_path, caplog):
    path = tmp_path / "q.db"
    first = SpoolFile(path)
    queue = spool(clock, file=first)
    for seq in range(1, 200):
        put(queue, seq)
    first.close(uptime_us=0)
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 8 * 4096)
    put(queue, 200)
    assert sight(queue).set_aside == 199
    assert seqs(queue) == [200]
    assert path.with_name("q.db.damaged-1").exists()
    assert "is damaged" in caplog.text
    queue.close()


def test_a_file_that_is_no_queue_at_start_is_set_aside(clock, tmp_path):
    path = tmp_path / "q.db"
    path.write_bytes(b"not a database " * 100)
    queue = spool(clock, file=SpoolFile(path))
    put(queue, 1)
    assert seqs(queue) == [1]
    assert path.with_name("q.db.damaged-1").exists()
    queue.close()


def test_what_was_delivered_before_the_damage_is_not_set_aside_too(clock, tmp_path, monkeypatch):
    path = tmp_path / "q.db"
    file = SpoolFile(path)
    queue = spool(clock, file=file)
    put(queue, *range(1, 200))
    commit = file.commit

    def full(**_change):
        raise Retryable("full")

    monkeypatch.setattr(file, "commit", full)
    deliver(queue, 9)  # the disk cannot forget them
    assert (sight(queue).delivered, sight(queue).waiting) == (9, 190)
    monkeypatch.setattr(file, "commit", commit)
    in_hand = queue.peek(limit=10, max_bytes=1 << 30)
    file.let_go()
    broken_behind(path, first_byte=0)
    queue.settle(in_hand)
    seen = sight(queue)
    assert (seen.delivered, seen.set_aside, seen.waiting) == (19, 180, 0)
    put(queue, 200)
    assert (sight(queue).waiting, seqs(queue)) == (1, [200])
    queue.close()


@pytest.mark.parametrize("what", ["removed", "another queue", "an older copy", "a newer copy"])
def test_a_file_replaced_while_it_was_not_open_is_said_and_the_books_go_on(clock, tmp_path, caplog, what):
    path, aside = tmp_path / "q.db", tmp_path / "aside.db"
    file = SpoolFile(path)
    queue = spool(clock, file=file)
    put(queue, 1, 2)
    file.close(uptime_us=0)
    shutil.copy(path, aside)
    put(queue, 3, 4, 5)
    if what == "a newer copy":
        file.close(uptime_us=0)
        shutil.copy(path, aside)
        deliver(queue, 4)
    file.close(uptime_us=0)
    if what == "removed":
        path.unlink()
    elif what == "another queue":
        path.unlink()
        stranger = spool(clock, file=SpoolFile(aside.with_name("other.db")))
        put(stranger, 77)
        stranger.close()
        aside.with_name("other.db").rename(path)
    else:
        aside.replace(path)
    put(queue, 6)
    seen = sight(queue)
    lost = {"removed": 5, "another queue": 5, "an older copy": 3, "a newer copy": 0}[what]
    assert seen.set_aside == lost
    assert (f"at least {lost} answers are" in caplog.text) is (lost > 0)
    assert seqs(queue) == {"an older copy": [1, 2, 6], "a newer copy": [5, 6]}.get(what, [6])
    if what == "another queue":
        kept = SpoolFile(path.with_name("q.db.strange-1"))
        assert kept.rows == 1
        kept.close(uptime_us=0)
    deliver(queue, 10)
    assert sight(queue).waiting == 0
    queue.close()


def test_a_queue_of_a_newer_version_is_refused_with_what_to_do(tmp_path):
    path = tmp_path / "q.db"
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(ConfigError, match="written by a newer nearfar"):
        SpoolFile(path)


def test_a_queue_that_cannot_be_made_is_refused_at_start(tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(ConfigError, match="durable"):
        SpoolFile(tmp_path / "taken" / "q.db")
