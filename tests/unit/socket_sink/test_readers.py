"""The answer socket: any number of readers, none of which can delay an answer or another reader."""

import contextlib
import errno
import json
import os
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from edge.sinks.unix_socket import HOPELESS_US, MAX_READERS, UnixSocketSink
from pipelines.errors import ConfigError
from tests.support.answers import answer
from tests.support.eventually import eventually


class Clock:
    def __init__(self):
        self.now_us = 1_000_000

    def __call__(self):
        return self.now_us


class Reader:
    """A program next door."""

    def __init__(self, path, *, blocking=True):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.setblocking(blocking)
        self.socket.connect(os.fspath(path))
        self.socket.settimeout(5)
        self._data = bytearray()
        self.lines = []

    def read(self):
        """Everything that is there now; True at the end of the connection."""
        self.socket.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while data := self.socket.recv(1 << 20):
                self._data += data
                *whole, rest = bytes(self._data).split(b"\n")
                self._data = bytearray(rest)
                self.lines += [json.loads(line) for line in whole]
            return True
        return False

    def seqs(self):
        self.read()
        return [line["seq"] for line in self.lines if "seq" in line]

    def close(self):
        self.socket.close()


@pytest.fixture
def home():
    # Not tmp_path: a socket's path must be short.
    with tempfile.TemporaryDirectory() as root:
        yield Path(root)


@pytest.fixture
def path(home):
    return home / "run" / "answers.sock"


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def sink(path, clock):
    made = UnixSocketSink(path=path, clock_us=clock)
    yield made
    made.close()


@pytest.fixture
def connect(sink, path):
    readers = []

    def one():
        before = sink.readers
        readers.append(Reader(path))
        eventually(lambda: sink.readers == before + 1, what="the reader")
        return readers[-1]

    yield one
    for reader in readers:
        reader.close()


def fat_answer(seq):
    return answer(seq, reason="x" * 10_000)


def wait_seqs(reader, count):
    """Until `reader` has got answers 1 to `count`."""
    eventually(lambda: reader.seqs() == [*range(1, count + 1)], what=f"{count} answers")


def fill(sink, first=1):
    """Answers until a reader that takes nothing misses some; the last seq."""
    seq = first
    while sink.missed == 0:
        sink.write(fat_answer(seq))
        seq += 1
        assert seq < first + 1000
    return seq - 1


# -- readers ----------------------------------------------------------------------------------------------


def test_every_reader_gets_every_answer_from_when_it_came(sink, connect):
    first = connect()
    sink.write(answer(1))
    second = connect()
    sink.write(answer(2))
    eventually(lambda: first.seqs() == [1, 2], what="both answers")
    eventually(lambda: second.seqs() == [2], what="the second answer")


def test_a_reader_that_stops_reading_delays_neither_the_answers_nor_another_reader(sink, connect):
    connect()
    healthy = connect()
    seq = 0
    while sink.missed == 0:
        seq += 1
        sink.write(fat_answer(seq))  # returns, or the test's timeout says it does not
        wait_seqs(healthy, seq)
    assert sink.readers == 2


def test_a_reader_that_was_slow_is_told_how_many_it_missed_and_gets_the_newest(sink, connect):
    slow = connect()
    last = fill(sink)
    missed = sink.missed
    eventually(lambda: slow.seqs()[-1:] == [last], what="the newest answer")
    notices = [line["dropped"] for line in slow.lines if "dropped" in line]
    assert sum(notices) == missed == last - len(slow.seqs())
    assert slow.seqs() == sorted(set(slow.seqs()))
    gap_at = next(i for i, line in enumerate(slow.lines) if "dropped" in line)
    before, after = slow.lines[gap_at - 1]["seq"], slow.lines[gap_at + 1]["seq"]
    assert after - before - 1 == notices[0]
    sink.write(answer(last + 1))
    eventually(lambda: slow.seqs()[-1] == last + 1, what="an answer after it caught up")
    assert sink.missed == missed


def test_a_reader_that_takes_nothing_for_ten_seconds_is_disconnected_and_its_answers_counted(
    sink, connect, clock, caplog
):
    hopeless = connect()
    last = fill(sink)
    clock.now_us += HOPELESS_US
    eventually(lambda: sink.readers == 0, what="the end of the reader")
    eventually(hopeless.read, what="the end of its connection")
    assert sink.missed == last - len(hopeless.seqs())
    assert "took nothing for 10 s" in caplog.text


def test_a_reader_is_not_called_hopeless_because_no_answer_came_for_long(sink, connect, clock):
    reader = connect()
    sink.write(answer(1))
    eventually(lambda: reader.seqs() == [1], what="the first")
    clock.now_us += 10 * HOPELESS_US
    fill(sink, first=2)
    connect()  # the other thread has had a turn since
    reader.read()
    assert sink.readers == 2


def test_a_reader_that_goes_away_is_forgotten(sink, connect):
    connect().close()
    eventually(lambda: sink.readers == 0, what="the end of the reader")
    sink.write(answer(1))
    assert sink.missed == 0


def test_a_reader_that_only_says_it_will_send_nothing_still_gets_answers(sink, connect):
    reader = connect()
    reader.socket.shutdown(socket.SHUT_WR)  # `nc -U` at the end of its own input
    for seq in range(1, 4):
        sink.write(answer(seq))
        wait_seqs(reader, seq)


def test_what_a_reader_says_is_thrown_away(sink, connect):
    reader = connect()
    reader.socket.settimeout(5)
    for _ in range(50):
        reader.socket.sendall(b"hello" * 20_000)
    sink.write(answer(1))
    eventually(lambda: reader.seqs() == [1], what="the answer")


def test_one_reader_too_many_is_told_so_and_the_others_stay(sink, connect, path):
    readers = [connect() for _ in range(MAX_READERS)]
    extra = Reader(path)
    eventually(extra.read, what="the end of its connection")
    assert extra.lines == [{"error": "16 readers are connected already, no more are served"}]
    extra.close()
    assert sink.counts() == {"readers": MAX_READERS, "missed_by_readers": 0, "turned_away": 1}
    readers[3].close()
    eventually(lambda: sink.readers == MAX_READERS - 1, what="room")
    late = connect()
    sink.write(answer(1))
    eventually(lambda: late.seqs() == [1], what="the answer")


def test_a_crowd_that_comes_at_once_is_served_or_told_each_of_it(sink, path):
    with sink._lock:  # whoever serves them is held up: they wait in the kernel's queue
        crowd = [Reader(path, blocking=False) for _ in range(60)]
    told = crowd[MAX_READERS:]
    eventually(lambda: all(reader.read() for reader in told), what="the end of their connections")
    assert all(list(line) == ["error"] for reader in told for line in reader.lines)
    assert {len(reader.lines) for reader in told} == {1}
    assert sink.turned_away == len(told)
    for reader in crowd:
        reader.close()


def test_out_of_descriptors_is_said_once_and_who_waits_is_served_when_there_are_some_again(
    sink, connect, clock, monkeypatch, caplog
):
    served = connect()
    tried = threading.Event()

    def none_left(_):
        tried.set()
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patch:
        patch.setattr(socket.socket, "accept", none_left)
        waiting = Reader(sink.path)
        eventually(tried.is_set, what="an attempt")
        for seq in range(1, 200):  # the thread that serves readers waits for nothing meanwhile
            sink.write(answer(seq))
            wait_seqs(served, seq)
            tried.clear()
        clock.now_us += 1_000_000
        eventually(tried.is_set, what="another attempt, a second later")
    assert caplog.text.count("Too many open files") == 1
    clock.now_us += 1_000_000
    eventually(lambda: sink.readers == 2, what="the reader that waited")
    waiting.close()


def test_readers_that_come_and_go_while_answers_pass_break_nothing(sink, path):
    stop = threading.Event()
    failed = []

    def visitor():
        while not stop.is_set():
            try:
                reader = Reader(path)
                reader.socket.settimeout(0.2)
                with contextlib.suppress(TimeoutError):
                    reader.socket.recv(10)
                reader.close()
            except OSError as error:
                failed.append(error)

    visitors = [threading.Thread(target=visitor) for _ in range(4)]
    for thread in visitors:
        thread.start()
    for seq in range(2000):
        sink.write(answer(seq))
    stop.set()
    for thread in visitors:
        thread.join(5)
    assert failed == []
    eventually(lambda: sink.readers == 0, what="the end of every reader")


def test_an_answer_that_waits_at_close_still_reaches_a_reader_that_reads(path, clock):
    sink = UnixSocketSink(path=path, clock_us=clock)
    reader = Reader(path)
    eventually(lambda: sink.readers == 1, what="the reader")
    seq = 0
    while not sink.behind:
        seq += 1
        sink.write(fat_answer(seq))
    closing = threading.Thread(target=sink.close)
    closing.start()
    eventually(lambda: reader.seqs()[-1:] == [seq], what="the last answer")
    closing.join(5)
    reader.close()
    assert not closing.is_alive()
    assert sink.missed == 0


# -- the file ---------------------------------------------------------------------------------------------


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


def test_the_socket_of_a_living_agent_is_refused_with_words_and_stays(sink, path, connect):
    with pytest.raises(ConfigError, match="is served by another program that runs now"):
        UnixSocketSink(path=path)
    reader = connect()

    def answered():  # again and again: the one that was refused had connected as well, to look
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
    reader = connect()
    path.unlink()
    path.write_text("mine")
    for _ in range(3):
        clock.now_us += 1_000_000
        sink._wake()
        eventually(lambda: sink._file_us > clock.now_us, what="a look")
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
