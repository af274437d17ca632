"""The answer socket: any number of readers, none of which can delay an answer or another reader."""

import contextlib
import errno
import os
import socket
import threading

from edge.sinks.unix_socket import HOPELESS_US, MAX_READERS, UnixSocketSink
from tests.support.answers import answer
from tests.support.eventually import eventually
from tests.support.socket_readers import Reader, fat_answer, fill, wait_seqs


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


def test_a_crowd_that_comes_at_once_is_served_or_told_each_of_it(sink, path, monkeypatch):
    accept, all_there = socket.socket.accept, threading.Event()

    def held_up(listener):
        all_there.wait(5)
        return accept(listener)

    with monkeypatch.context() as patch:
        patch.setattr(socket.socket, "accept", held_up)
        crowd = [Reader(path, blocking=False) for _ in range(60)]  # they wait in the kernel's queue
        all_there.set()
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
