"""Visits to an outbox that go wrong: killed half-way, by another path, to a file that makes no sense."""

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from edge.identity import StateDir
from edge.outbox.bounds import Bounds
from edge.outbox.file.sqlite import SqliteOutbox
from edge.outbox.store import Changes
from nearfar.cli import main as command_line
from nearfar.outbox.view import looking
from tests.support.outboxes import SECOND, entry

KILLED_HALF_WAY = """
import os, signal, sys
from pathlib import Path
from edge.outbox.file.sqlite import SqliteOutbox
from nearfar.outbox import custody
from nearfar.outbox.selection import Selection
from nearfar.outbox.view import looking
from pipelines.result import Priority

path = Path(sys.argv[1])
custody.AT_ONCE = 2
commit, seen = SqliteOutbox.commit, []

def then_die(self, changes, now_us):
    commit(self, changes, now_us)
    seen.append(changes)
    if len(seen) == 2:
        os.kill(os.getpid(), signal.SIGKILL)

SqliteOutbox.commit = then_die
with custody.custody(path, to="purge") as held:
    with looking(path) as view:
        rows = custody.chosen(view, Selection(priority=Priority.LOW), refused=False)
    custody.purge(held, rows)
"""


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Ten records of low and ten of high priority, after five seconds of uptime."""
    with closing(StateDir(tmp_path / "state")) as held:
        held.identity("gw-7")
    store = SqliteOutbox(tmp_path / "state" / "outbox.db")
    store.open(0)
    store.commit(Changes(entries=[entry(n, priority=0 if n <= 10 else 2) for n in range(1, 21)]), 5 * SECOND)
    store.close(5 * SECOND)
    return tmp_path / "state"


def test_a_purge_that_is_killed_half_way_makes_no_record_older(state: Path) -> None:
    killed = subprocess.run(
        [sys.executable, "-c", KILLED_HALF_WAY, str(state)], check=False, env=os.environ, timeout=60
    )
    assert killed.returncode == -signal.SIGKILL
    with looking(state) as view:
        assert view.uptime_us == 5 * SECOND
        assert set(_born_us(state)) == {5 * SECOND}
    store = SqliteOutbox(state / "outbox.db", bounds=Bounds(max_age_us=60 * SECOND))
    store.open(0)
    store.commit(Changes(entries=[entry(99)]), SECOND)
    ledger = store.ledger()
    store.close(SECOND)
    assert (ledger.evicted["age"], ledger.evicted["purged"], ledger.pending) == (0, 4, 17)


def _born_us(state: Path) -> list[int]:
    """Of the gaps that explain what was purged."""
    with closing(sqlite3.connect(state / "outbox.db")) as db:
        return [born_us for (born_us,) in db.execute("SELECT born_us FROM gaps")]


@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_link_to_an_outbox_does_not_lead_past_its_agents_lock(
    state: Path, tmp_path: Path, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    link = tmp_path / "elsewhere" / "link.db"
    link.parent.mkdir()
    link.symlink_to(state / "outbox.db" if what == "file" else state)
    with closing(StateDir(state)):
        assert command_line.run(["outbox", "purge", str(link), "--yes"]) == 2
    assert "an agent runs in" in capsys.readouterr().err
    assert sorted(path.name for path in link.parent.iterdir()) == ["link.db"]
    assert command_line.run(["outbox", "purge", str(link), "--yes"]) == 0
    assert "20 records purged" in capsys.readouterr().out


@pytest.mark.parametrize("name", [b"\xff\xfe", b"not a name", b"\x00\x00"])
def test_a_name_file_that_holds_no_name_stops_no_look_and_is_nobodys_name(
    state: Path, name: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    (state / "agent").write_bytes(name)
    for words in (["stat"], ["ls"]):
        assert command_line.run(["outbox", words[0], str(state), *words[1:]]) == 0
    assert command_line.run(["outbox", "drain", str(state), "--link", "zmq://127.0.0.1:9"]) == 2
    assert "--agent NAME" in capsys.readouterr().err


@pytest.mark.parametrize(
    "damage", ["schema", "UPDATE ledger SET uptime_us = 'x'", "UPDATE records SET born_us = 'x'"]
)
def test_a_file_that_makes_no_sense_is_told_in_words(
    state: Path, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = state / "outbox.db"
    if damage == "schema":
        whole = file.read_bytes()
        file.write_bytes(whole.replace(b"NOT NULL", b"NOT NU\xccL", 1))
    else:
        with closing(sqlite3.connect(file)) as db:
            db.execute(damage)
            db.commit()
    codes = {command_line.run(["outbox", words, str(state)]) for words in ("stat", "ls")}
    assert codes <= {0, 2}
    assert 2 in codes
    assert str(file) in capsys.readouterr().err


@pytest.mark.parametrize("words", [["outbox", "stat"], ["report"], ["check"], ["doctor"], ["edge"]])
def test_a_name_that_no_file_can_have_is_told_in_words(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line.run([*words, "x" * 300]) in (1, 2)
    assert "name too long" in capsys.readouterr().err
