"""`nearfar outbox`: what a person sees of an outbox, also while an agent uses it."""

import io
import json
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from edge.outbox.file.sqlite import SqliteOutbox
from edge.outbox.memory import Held
from edge.outbox.store import Changes, Watermark
from nearfar.cli import main as command_line
from nearfar.cli.outbox import command
from pipelines.errors import ConfigError, Retryable
from pipelines.result import Gap, GapReason, Priority
from tests.support.outboxes import RUN, SECOND, record
from tests.support.rig import free_port


@pytest.fixture
def live(tmp_path: Path) -> Iterator[SqliteOutbox]:
    """A store that an agent has open: three committed, one acknowledged, a gap."""
    store = SqliteOutbox(tmp_path / "outbox.db")
    store.open(0)
    records = [record(1), record(2, priority=Priority.HIGH), record(3)]
    gap = Gap(run=RUN, stream="door", first=4, last=9, reason=GapReason.SHED, detail="overload")
    store.commit(Changes(entries=[Held(r, 0).entry(0) for r in records], gaps=[gap]), 0)
    first = store.find((RUN, "door", 1))
    assert first is not None
    store.commit(Changes(acknowledged=[first.number]), 2 * SECOND)
    yield store
    store.close(0)


def run(*args: str) -> str:
    result = CliRunner().invoke(command, args, catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def test_stat_prints_the_law_as_numbers_that_add_up_beside_a_live_agent(live: SqliteOutbox) -> None:
    text = run("stat", str(live.path.parent))
    assert (
        "committed 3 = acked 1 + pending 2 + evicted 0 (age) + 0 (bytes) + 0 (purged) + set aside 0" in text
    )
    assert "1 high, 1 normal, 0 low" in text
    assert "oldest 2.04 s" in text


def test_programs_get_what_stat_says_as_json(live: SqliteOutbox) -> None:
    figures = json.loads(run("stat", str(live.path), "--json"))
    assert figures["adds_up"] is True
    assert (figures["committed"], figures["acked"], figures["pending"], figures["gaps_pending"]) == (
        3,
        1,
        2,
        1,
    )


def test_stat_says_so_when_the_numbers_do_not_add_up(live: SqliteOutbox) -> None:
    with closing(sqlite3.connect(live.path)) as other, other:
        other.execute("UPDATE ledger SET committed = 7")
    assert "committed 7 ≠" in run("stat", str(live.path))


def test_ls_shows_what_goes_next_first(live: SqliteOutbox) -> None:
    lines = [json.loads(line) for line in run("ls", str(live.path), "--json").splitlines()]
    assert [line.get("seq") for line in lines] == [2, 3, None]
    assert lines[0]["answered_by"] == "near"
    assert (lines[2]["gap"], lines[2]["first"], lines[2]["last"]) == ("shed", 4, 9)
    assert "priority high" in run("ls", str(live.path))


def test_a_closed_outbox_can_be_read_too(live: SqliteOutbox) -> None:
    live.close(3 * SECOND)
    assert "pending 2" in run("stat", str(live.path))


def test_looking_changes_nothing(live: SqliteOutbox) -> None:
    live.close(0)
    before = live.path.read_bytes()
    run("stat", str(live.path))
    run("ls", str(live.path))
    assert live.path.read_bytes() == before
    assert [p.name for p in live.path.parent.iterdir()] == ["outbox.db"]


def test_a_wrong_path_is_answered_in_words(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no outbox at"):
        CliRunner().invoke(command, ["stat", str(tmp_path)], catch_exceptions=False)


def test_what_waits_beside_the_file_counts_as_on_disk(live: SqliteOutbox) -> None:
    beside = [live.path.with_name(live.path.name + end) for end in ("", "-wal", "-shm")]
    assert beside[1].stat().st_size > 0
    told = json.loads(run("stat", str(live.path), "--json"))["file_bytes"]
    assert told == sum(path.stat().st_size for path in beside)


def test_an_outbox_with_nothing_to_send_is_drained_without_a_worker(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = SqliteOutbox(tmp_path / "outbox.db")
    store.open(0)
    store.close(0)
    assert command_line.run(["outbox", "drain", str(tmp_path), "--link", "zmq://127.0.0.1:9"]) == 0
    assert capsys.readouterr().err == "nothing to send\n"


def test_a_run_that_ended_without_a_word_is_something_to_send(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = SqliteOutbox(tmp_path / "outbox.db")
    store.open(0)
    store.commit(Changes(marks=[Watermark(run=RUN, stream="door", reserved=256, settled=3)]), 0)
    store.close(0)
    drain = ["outbox", "drain", str(tmp_path), "--link", "zmq://127.0.0.1:9"]
    assert command_line.run(drain) == 2
    assert "--agent NAME" in capsys.readouterr().err


@pytest.mark.parametrize("stdin", [io.StringIO(), None])
def test_a_purge_that_nobody_can_be_asked_about_gives_nothing_up_and_says_how(
    stdin: io.StringIO | None,
    live: SqliteOutbox,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    live.close(0)
    monkeypatch.setattr("sys.stdin", stdin)
    assert command_line.run(["outbox", "purge", str(live.path)]) == 2
    err = capsys.readouterr().err
    assert "nothing was given up" in err
    assert "--yes" in err
    assert json.loads(run("stat", str(live.path), "--json"))["pending"] == 2


def test_a_record_that_a_worker_cannot_read_is_shown_with_its_words_and_exported(live: SqliteOutbox) -> None:
    stored = live.find((RUN, "door", 2))
    assert stored is not None
    live.commit(Changes(refused={stored.number: "a record is torn"}), 2 * SECOND)
    text = run("stat", str(live.path))
    assert "pending 1 + evicted 0 (age) + 0 (bytes) + 0 (purged) + set aside 1" in text
    assert "set aside and still here, since a worker cannot read them: 1" in text
    assert json.loads(run("stat", str(live.path), "--json"))["refused"] == 1
    lines = [json.loads(line) for line in run("ls", str(live.path), "--json").splitlines()]
    assert [(line["seq"], line["set_aside"]) for line in lines if "set_aside" in line] == [
        (2, "a record is torn")
    ]
    written = [json.loads(line) for line in run("export", str(live.path)).splitlines() if line[0] == "{"]
    (shown,) = [line for line in written if line.get("set_aside")]
    assert (shown["seq"], shown["answered_by"], shown["set_aside"]) == (2, "near", "a record is torn")


def test_records_that_were_set_aside_are_purged_only_if_they_are_meant(live: SqliteOutbox) -> None:
    stored = live.find((RUN, "door", 2))
    assert stored is not None
    live.commit(Changes(refused={stored.number: "torn"}), 2 * SECOND)
    live.close(2 * SECOND)
    assert "1 records purged" in run("purge", str(live.path), "--yes")
    assert json.loads(run("stat", str(live.path), "--json"))["refused"] == 1
    assert "nothing of that kind" in run("purge", str(live.path), "--refused", "--yes", "--stream", "yard")
    assert (
        run("purge", str(live.path), "--refused", "--yes")
        == "1 records that a worker could not read purged\n"
    )
    figures = json.loads(run("stat", str(live.path), "--json"))
    assert (figures["refused"], figures["set_aside"], figures["adds_up"]) == (0, 1, True)


def test_a_worker_s_words_move_no_cursor_and_stay_on_their_line(live: SqliteOutbox) -> None:
    (stored, *_) = live.peek(limit=1, max_bytes=1 << 20)
    live.commit(Changes(refused={stored.number: "torn\x1b[2J\nrun 00  stream forged"}), 2 * SECOND)
    (line,) = [found for found in run("ls", str(live.path)).splitlines() if "set_aside" in found]
    assert "set_aside torn [2J run 00  stream forged" in line


def test_a_row_whose_priority_was_damaged_is_listed_all_the_same(live: SqliteOutbox) -> None:
    (stored, *_) = live.peek(limit=1, max_bytes=1 << 20)
    live.commit(Changes(refused={stored.number: "torn"}), 2 * SECOND)
    live.close(2 * SECOND)
    with closing(sqlite3.connect(live.path)) as db:
        db.execute("UPDATE refused SET priority = 7")
        db.commit()
    assert "priority high" in next(
        found for found in run("ls", str(live.path)).splitlines() if "set_aside torn" in found
    )


def test_a_drain_sends_what_was_set_aside_once_more_and_has_no_trouble_with_its_file(
    live: SqliteOutbox, caplog: pytest.LogCaptureFixture
) -> None:
    (stored, *_) = live.peek(limit=1, max_bytes=1 << 20)
    live.commit(Changes(refused={stored.number: "torn"}), 2 * SECOND)
    live.close(2 * SECOND)
    url = f"zmq://127.0.0.1:{free_port()}"
    words = ["drain", str(live.path), "--refused", "--agent", "gw-1", "--patience", "100ms", "--link", url]
    with ThreadPoolExecutor(1) as beside:  # the main thread would hear signals from here on
        drained = beside.submit(CliRunner().invoke, command, words).result()
    assert isinstance(drained.exception, Retryable)
    assert caplog.text == ""
    figures = json.loads(run("stat", str(live.path), "--json"))
    assert (figures["pending"], figures["set_aside"], figures["adds_up"]) == (2, 0, True)
