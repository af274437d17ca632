"""Who an agent is: one name, one run a start, one agent a directory."""

import errno
import os
import threading
from contextlib import closing

import pytest

from edge.identity import StateDir
from edge.kept_name import NAME
from edge.outbox.file.sqlite import SqliteOutbox
from edge.outbox.file.storage import DiskStorage
from pipelines.errors import ConfigError, Retryable
from pipelines.whole_file import write_whole


def test_a_name_is_made_once_and_kept(tmp_path):
    first = StateDir(tmp_path)
    made = first.identity(None)
    first.close()
    second = StateDir(tmp_path)
    again = second.identity(None)
    second.close()
    assert made.agent == again.agent
    assert made.run != again.run
    assert len(made.run) == 16


def test_a_second_agent_in_the_same_directory_is_refused_with_words(tmp_path):
    first = StateDir(tmp_path)
    with pytest.raises(ConfigError, match="another agent runs in"):
        StateDir(tmp_path)
    first.close()
    StateDir(tmp_path).close()


def test_a_name_that_is_no_name_is_refused(tmp_path):
    state = StateDir(tmp_path)
    with pytest.raises(ConfigError, match="must be 1"):
        state.identity("a name with spaces")
    state.close()


def test_a_directory_that_cannot_be_made_says_what_to_do(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="--set state_dir"):
        StateDir(tmp_path / "file" / "state")


@pytest.mark.parametrize("left", ["", "\n", "not a name", "\x00\x00\x00"])
def test_what_a_power_cut_left_of_a_name_counts_as_none(tmp_path, left, caplog):
    (tmp_path / "agent").write_text(left)
    with closing(StateDir(tmp_path)) as state:
        made = state.identity(None)
    assert NAME.fullmatch(made.agent)
    assert (tmp_path / "agent").read_text().strip() == made.agent
    assert bool(left.strip()) == ("holds no name" in caplog.text)


def test_a_name_that_cannot_be_read_is_told_and_not_replaced(tmp_path):
    (tmp_path / "agent").mkdir()
    with closing(StateDir(tmp_path)) as state, pytest.raises(ConfigError, match="--set agent=NAME"):
        state.identity(None)


def test_a_name_that_is_kept_is_not_written_again(tmp_path, monkeypatch):
    with closing(StateDir(tmp_path)) as state:
        made = state.identity(None)
    monkeypatch.setattr("edge.kept_name.write_whole", lambda *_: pytest.fail("written again"))
    with closing(StateDir(tmp_path)) as state:
        again = state.identity(None)
        again.keep()
        state.identity(made.agent).keep()
    assert again.agent == made.agent


def test_a_configured_name_needs_no_kept_one(tmp_path, caplog):
    (tmp_path / "agent").mkdir()
    with closing(StateDir(tmp_path)) as state:
        assert state.identity("gw-7").agent == "gw-7"
    assert "cannot be kept" in caplog.text


def test_another_name_than_before_is_told(tmp_path, caplog):
    with closing(StateDir(tmp_path)) as state:
        state.identity("gw-a")
        state.identity("gw-b")
    assert "was gw-a and is gw-b now" in caplog.text


def test_on_a_disk_without_room_an_agent_has_a_name_and_keeps_it_before_any_record(
    tmp_path, monkeypatch, caplog
):
    full = [True]

    def write(path, data):
        if full[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        write_whole(path, data)

    monkeypatch.setattr("edge.kept_name.write_whole", write)
    with closing(StateDir(tmp_path)) as state:
        made = state.identity(None)
    assert "cannot be kept" in caplog.text
    store = SqliteOutbox(tmp_path / "outbox.db", storage=DiskStorage(before=made.keep))
    with pytest.raises(Retryable, match="No space left"):
        store.open(0)
    assert not (tmp_path / "outbox.db").exists()
    full[0] = False
    store.open(0)
    store.close(0)
    with closing(StateDir(tmp_path)) as state:
        assert state.identity(None).agent == made.agent


def test_a_directory_that_does_not_answer_is_told_while_it_is_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr("edge.identity.SLOW_S", 0.01)
    told = threading.Event()
    monkeypatch.setattr("edge.identity.log.error", lambda *_: told.set())
    monkeypatch.setattr("edge.identity._to_lock", lambda path: told.wait(10) and os.open(path, os.O_RDONLY))
    StateDir(tmp_path).close()
    assert told.is_set()


def test_a_directory_may_be_closed_twice_and_closes_nothing_elses(tmp_path):
    state = StateDir(tmp_path)
    state.close()
    with (tmp_path / "other").open("w") as other:
        state.close()
        other.write("still open")
    assert (tmp_path / "other").read_text() == "still open"
