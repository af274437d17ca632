"""The way between front and engine: whole messages, or an error that says so."""

import socket
import threading

import pytest

from cloud.engine.channel import Channel, ChannelClosedError, ChannelTimeoutError
from cloud.engine.messages import HEAD, LARGEST_BODY_BYTES, MAGIC, MalformedMessageError, Message, Say, pack
from tests.support.eventually import eventually


@pytest.fixture
def line():
    ours, theirs = Channel.pair()
    yield ours, theirs
    ours.close()
    theirs.close()


@pytest.mark.parametrize("body", [b"", b"x", b"y" * 1_000_000], ids=len)
def test_a_message_comes_as_it_was_sent_whatever_pieces_it_comes_in(line, body):
    ours, theirs = line
    data = pack(Message(Say.RUN, 7, body)) + pack(Message(Say.LOAD, 8))

    def send():
        for at in range(0, len(data), 65_521):
            theirs.sendall(data[at : at + 65_521])

    sender = threading.Thread(target=send)
    sender.start()
    assert ours.receive(5.0) == Message(Say.RUN, 7, body)
    assert ours.receive(5.0) == Message(Say.LOAD, 8)
    sender.join()


@pytest.mark.parametrize("cut", [0, 1, HEAD.size - 1, HEAD.size, HEAD.size + 3])
def test_a_message_torn_by_the_end_of_the_other_side_is_its_end_and_no_message(line, cut):
    ours, theirs = line
    theirs.sendall(pack(Message(Say.FOUND, 1, b"columns"))[:cut])
    theirs.close()
    with pytest.raises(ChannelClosedError):
        ours.receive(5.0)


def test_a_slow_message_is_silence_and_then_itself(line):
    ours, theirs = line
    data = pack(Message(Say.FOUND, 1, b"columns"))
    theirs.sendall(data[:10])
    for _ in range(2):
        with pytest.raises(ChannelTimeoutError):
            ours.receive(0.0)
    theirs.sendall(data[10:])
    assert ours.receive(5.0).body == b"columns"


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        HEAD.pack(b"NFE0", Say.RUN, 1, 0),
        HEAD.pack(MAGIC, 99, 1, 0),
        HEAD.pack(MAGIC, Say.RUN, 1, LARGEST_BODY_BYTES + 1),
    ],
)
def test_what_is_no_head_is_refused_before_anything_is_read_for_it(line, head):
    ours, theirs = line
    theirs.sendall(head.ljust(HEAD.size, b"\0"))
    with pytest.raises(MalformedMessageError):
        ours.receive(5.0)


def test_a_body_no_reader_would_take_is_not_sent():
    with pytest.raises(ValueError, match="is the most"):
        pack(Message(Say.RUN, 1, bytes(LARGEST_BODY_BYTES + 1)))


def test_hanging_up_wakes_whoever_waits_on_either_side(line):
    ours, theirs = line
    seen = []

    def wait(channel):
        try:
            channel.receive()
        except ChannelClosedError as error:
            seen.append(error)

    other = Channel(theirs)
    waiting = [threading.Thread(target=wait, args=(channel,)) for channel in (ours, other)]
    for thread in waiting:
        thread.start()
    ours.hang_up()
    for thread in waiting:
        thread.join(5.0)
    assert len(seen) == 2
    with pytest.raises(ChannelClosedError):
        ours.send(Message(Say.LOAD))


def test_any_thread_may_send_while_another_one_receives(line):
    ours, theirs = line
    other = Channel(theirs)
    got: list[Message] = []

    def read():
        while len(got) < 400:
            got.append(other.receive(5.0))

    reader = threading.Thread(target=read)
    reader.start()
    senders = [
        threading.Thread(target=lambda: [ours.send(Message(Say.RUN, i, b"z" * i)) for i in range(100)])
        for _ in range(4)
    ]
    for thread in senders:
        thread.start()
    for thread in (*senders, reader):
        thread.join(10.0)
    assert sorted(m.run for m in got) == sorted([*range(100)] * 4)
    assert all(m.body == b"z" * m.run for m in got)


def test_a_closed_pair_leaves_nothing_open():
    ours, theirs = Channel.pair()
    ours.close()
    ours.close()
    theirs.close()
    assert ours.fileno() == -1
    with pytest.raises(ChannelClosedError):
        ours.receive(0.0)


def test_bytes_that_wait_are_read_before_the_end_is_told(line):
    ours, theirs = line
    theirs.sendall(pack(Message(Say.FAILED, 3, b"last words")))
    theirs.shutdown(socket.SHUT_WR)
    assert eventually(lambda: ours.receive(1.0)).body == b"last words"
    with pytest.raises(ChannelClosedError):
        ours.receive(1.0)
