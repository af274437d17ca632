"""What waits for one slow reader: the newest lines, whole, and how many are missing."""

from edge.sinks.backlog import Backlog
from edge.sinks.unix_socket import BACKLOG_BYTES


def drained(backlog, step=7):
    out = bytearray()
    while chunk := backlog.next_chunk():
        out += chunk[:step]
        backlog.sent(min(step, len(chunk)))
    return out.decode().splitlines()


def test_a_backlog_keeps_the_newest_lines_and_tells_the_gap_where_it_is():
    backlog = Backlog(limit_bytes=30)
    for number in range(1, 6):
        backlog.add(b"line-%d---\n" % number)  # 10 bytes
    assert drained(backlog) == ['{"dropped":2}', "line-3---", "line-4---", "line-5---"]
    assert backlog.missed == 2
    assert not backlog


def test_a_line_that_was_begun_is_finished_before_the_gap():
    backlog = Backlog(limit_bytes=20)
    backlog.add(b"first----\n")
    backlog.next_chunk()
    backlog.sent(3)
    for number in range(2, 6):
        backlog.add(b"line-%d---\n" % number)
    assert drained(backlog) == ["st----", '{"dropped":2}', "line-4---", "line-5---"]


def test_a_line_larger_than_the_backlog_is_not_lost_for_its_size():
    backlog = Backlog(limit_bytes=10)
    backlog.add(b"x" * 50 + b"\n")
    assert drained(backlog) == ["x" * 50]
    assert backlog.missed == 0


def test_what_a_reader_that_is_gone_did_not_get_is_missed():
    backlog = Backlog(limit_bytes=BACKLOG_BYTES)
    for _ in range(4):
        backlog.add(b"line\n")
    backlog.next_chunk()
    backlog.sent(2)
    backlog.give_up()
    assert (backlog.missed, bool(backlog)) == (4, False)
