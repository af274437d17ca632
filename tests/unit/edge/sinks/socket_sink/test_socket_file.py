"""The file of the answer socket: made, replaced, refused and removed without harm to anybody's own."""

import os
import stat
import subprocess
import sys
from contextlib import closing

import pytest

from edge.sinks import socket_file
from edge.sinks.unix_socket import UnixSocketSink
from pipelines.errors import ConfigError
from tests.support.answers import answer
from tests.support.eventually import eventually
from tests.support.socket_readers import Reader, wait_seqs


def test_the_socket_is_made_with_its_folder_and_mode_and_removed_at_the_end(home):
    path = home / "made" / "for" / "it.sock"
    sink = UnixSocketSink(path=path, mode=0o600)
    assert stat.S_ISSOCK(path.stat().st_mode)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    sink.close()
    assert not path.exists()


def test_the_group_may_connect_unless_told_otherwise(sink, path):
    assert stat.S_IMODE(path.stat().st_mode) == 0o660


def test_the_socket_of_a_dead_agent_is_replaced(path):
    path.parent.mkdir()
    code = f"import socket, os; socket.socket(socket.AF_UNIX).bind({os.fspath(path)!r}); os._exit(9)"
    subprocess.run([sys.executable, "-c", code], check=False)
    assert path.exists()
    sink = UnixSocketSink(path=path)
    reader = Reader(path)
    eventually(lambda: sink.readers == 1, what="the reader")
    reader.close()
    sink.close()


def test_the_socket_of_a_living_agent_is_refused_with_words_and_stays(sink, path):
    with pytest.raises(ConfigError, match="is served by another program that runs now"):
        UnixSocketSink(path=path)
    with closing(Reader(path)) as reader:  # not counted in: the one that was refused came and went, to look

        def answered():  # again and again: connecting may not have been noticed yet
            sink.write(answer(1))
            return reader.seqs()

        eventually(answered, what="the answer")


def test_a_socket_whose_file_was_removed_is_made_anew_and_that_is_said_once(
    sink, path, connect, clock, caplog
):
    early = connect()
    path.unlink()
    clock.now_us += 1_000_000
    eventually(path.exists, what="the file")
    late = connect()
    sink.write(answer(1))
    wait_seqs(early, 1)
    wait_seqs(late, 1)
    assert stat.S_IMODE(path.stat().st_mode) == 0o660
    assert caplog.text.count("its file was removed") == 1


def test_what_somebody_put_in_the_place_of_a_removed_socket_stays_and_is_said_once(
    sink, path, connect, clock, caplog
):
    looks = []
    is_ours = socket_file.is_ours

    def watched(*arguments):
        looks.append(clock.now_us)
        return is_ours(*arguments)

    reader = connect()
    path.unlink()
    path.write_text("mine")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket_file, "is_ours", watched)
        for _ in range(3):
            clock.now_us += 1_000_000
            reader.socket.sendall(b"anything")  # makes it look up
            eventually(lambda: looks[-1:] == [clock.now_us], what="a look")
    sink.write(answer(1))
    wait_seqs(reader, 1)
    assert path.read_text() == "mine"
    assert caplog.text.count("cannot be made anew") == 1


def test_a_file_that_is_no_socket_is_never_replaced(path):
    path.parent.mkdir()
    path.write_text("somebody's work")
    with pytest.raises(ConfigError, match="is not a socket"):
        UnixSocketSink(path=path)
    assert path.read_text() == "somebody's work"


def test_a_path_that_is_too_long_is_refused_with_the_length_that_fits(home):
    with pytest.raises(ConfigError, match="may have 107"):
        UnixSocketSink(path=home / ("x" * 120))
    longest = home / ("x" * (107 - len(os.fsencode(home)) - 1))
    UnixSocketSink(path=longest).close()


def test_a_folder_that_cannot_be_made_is_refused_with_its_path(home):
    (home / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot make the answer socket"):
        UnixSocketSink(path=home / "file" / "s")


def test_a_socket_another_agent_has_put_there_since_is_not_removed(path):
    old = UnixSocketSink(path=path)
    path.unlink()
    new = UnixSocketSink(path=path)
    old.close()
    assert path.exists()
    new.close()
    assert not path.exists()
