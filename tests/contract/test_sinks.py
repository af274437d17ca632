"""What every sink promises, whatever kind it is."""

import contextlib
import io
import json
import os
import socket
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from edge.sinks.base import Sink, SinkThread
from edge.sinks.kinds import SINKS
from edge.sinks.resequencer import Resequencer
from edge.sinks.stdout import StdoutSink
from edge.telemetry.frame_lines import answer_line
from pipelines.result import AnsweredBy, Status
from tests.support.answers import answer
from tests.support.broker import Broker, Subscriber
from tests.support.eventually import eventually
from tests.support.receiver import Receiver
from tests.support.sinks import sink

Lines = list[dict[str, Any]]


@dataclass
class House:
    """A sink, and the lines that whoever reads it has seen; a line still being written is not seen yet.

    `counts`: what its kind counts beyond the answers, after whatever one reader did.
    """

    sink: Sink
    lines: Callable[[], Lines]
    counts: dict[str, int] = field(default_factory=dict)


@contextlib.contextmanager
def jsonl(root: Path) -> Iterator[House]:
    path = root / "new" / "answers.jsonl"
    made = sink(root, kind="jsonl", path=path)
    yield House(made, lambda: parsed(path.read_bytes()), {"rotated": 0, "reopened": 0})


@contextlib.contextmanager
def stdout(root: Path) -> Iterator[House]:
    del root
    out = io.StringIO()
    yield House(StdoutSink(stream=out), lambda: parsed(out.getvalue().encode()))


@contextlib.contextmanager
def unix_socket(root: Path) -> Iterator[House]:
    path = root / "new" / "s"
    made = sink(root, kind="socket", path=path)
    with socket.socket(socket.AF_UNIX) as reader:
        reader.connect(os.fspath(path))
        reader.setblocking(False)
        eventually(lambda: made.readers == 1, what="the reader")
        read = bytearray()

        def lines() -> Lines:
            with contextlib.suppress(BlockingIOError):
                while data := reader.recv(65536):
                    read.extend(data)
            return parsed(bytes(read))

        yield House(made, lines, {"readers": 1, "missed_by_readers": 0, "turned_away": 0})


def without_id(messages: Lines) -> Lines:
    """What a queueing sink sends, as the others write it; the id is the identity as one word."""
    out = []
    for message in messages:
        line = dict(message)
        assert line.pop("id") == f"{line['agent']}/{line['run']}/{line['stream']}/{line['seq']}"
        out.append(line)
    return out


def wear_less(counts: dict[str, int]) -> dict[str, int]:
    """Without what a durable queue wrote to the disk, which is what SQLite makes of it."""
    return {name: count for name, count in counts.items() if name != "flash_bytes"}


DELIVERED = {"waiting": 0, "inherited": 0, "delivered": 1, "refused": 0, "evicted": 0, "set_aside": 0}
DELIVERED |= {"abandoned": 0, "sheltered": 0, "retries": 0, "uncounted_files": 0}


@contextlib.contextmanager
def webhook(root: Path, *, durable: bool = False) -> Iterator[House]:
    with Receiver() as receiver:
        made = sink(root, kind="webhook", url=receiver.url, durable=durable)
        try:
            yield House(made, lambda: without_id(list(receiver.taken)), DELIVERED)
        finally:
            made.close()


@contextlib.contextmanager
def mqtt(root: Path, *, durable: bool = False) -> Iterator[House]:
    with Broker(root) as broker, Subscriber(broker, "nearfar/+/+") as subscriber:
        made = sink(root, kind="mqtt", url=broker.url, durable=durable)
        try:
            yield House(made, lambda: without_id(subscriber.answers), DELIVERED)
        finally:
            made.close()


def wait_lines(house: House, count: int) -> None:
    """Until the lines of answers 1 to `count` are there, in order."""
    eventually(lambda: [x["seq"] for x in house.lines()] == [*range(1, count + 1)], what=f"{count} lines")


def parsed(data: bytes) -> Lines:
    return [json.loads(line) for line in data.splitlines(keepends=True) if line.endswith(b"\n")]


MOSQUITTO = pytest.mark.service("mosquitto")
PLACES: dict[str, Callable[[Path], contextlib.AbstractContextManager[House]]] = {
    "jsonl": jsonl,
    "stdout": stdout,
    "socket": unix_socket,
    "webhook": webhook,
    "webhook durable": partial(webhook, durable=True),
    "mqtt": mqtt,
    "mqtt durable": partial(mqtt, durable=True),
}


@pytest.fixture(params=[pytest.param(name, marks=MOSQUITTO if "mqtt" in name else ()) for name in PLACES])
def house(request) -> Iterator[House]:
    # Not tmp_path: a socket's path must be short.
    with tempfile.TemporaryDirectory() as root, PLACES[request.param](Path(root)) as made:
        try:
            yield made
        finally:
            made.sink.close()


def test_every_kind_of_sink_is_in_this_suite():
    assert {name.partition(" ")[0] for name in PLACES} == {kind.name for kind in SINKS}


def test_an_answer_is_one_line_with_everything_in_it(house):
    given = answer(7)
    house.sink.write(given)
    house.sink.flush()
    eventually(lambda: house.lines() == [json.loads(json.dumps(answer_line(given)))], what="the line")
    assert house.lines()[0]["detections"] == [
        {"label": "car", "class_id": 0, "score": 0.5, "box": [1.0, 2.0, 3.0, 4.0]}
    ]


def test_no_answer_is_null_and_never_an_empty_list(house):
    house.sink.write(
        answer(answered_by=AnsweredBy.MISSED, status=Status.TIMEOUT, detections=None, on_time=False)
    )
    house.sink.flush()
    eventually(lambda: len(house.lines()) == 1, what="the line")
    assert (house.lines()[0]["detections"], house.lines()[0]["status"]) == (None, "timeout")


def test_what_is_flushed_can_be_read_while_the_sink_is_open(house):
    for seq in range(1, 4):
        house.sink.write(answer(seq))
        house.sink.flush()
        wait_lines(house, seq)


def test_a_thousand_answers_come_in_order_and_whole(house):
    thread = SinkThread(house.sink, name="any", limit=1000)
    thread.start()

    for seq in range(1, 1001):
        assert thread.offer(answer(seq))
        if seq % 100 == 0:
            wait_lines(house, seq)
    assert thread.close()
    assert (thread.written, thread.failed, thread.dropped) == (1000, 0, 0)


def test_a_line_feed_in_a_reason_does_not_make_two_lines(house):
    house.sink.write(answer(reason="first\nsecond"))
    house.sink.flush()
    eventually(lambda: [x["reason"] for x in house.lines()] == ["first\nsecond"], what="the line")


def test_it_counts_what_its_kind_has_to_count_and_nothing_else(house):
    house.sink.write(answer(1))
    house.sink.flush()
    wait_lines(house, 1)
    eventually(lambda: wear_less(house.sink.counts()) == house.counts, what="its counts")


def test_a_frame_later_than_its_turn_waits_for_the_earlier_one_when_the_order_is_asked_for(house):
    thread = SinkThread(house.sink, name="any", resequencer=Resequencer())
    thread.start()
    patient = {"latency_us": 0, "deadline_us": 60_000_000}
    for seq in (2, 4, 1):
        assert thread.offer(answer(seq, **patient))
    thread.skip("door", 3)
    eventually(lambda: [x["seq"] for x in house.lines()] == [1, 2, 4], what="the lines in order")
    assert thread.close(5.0)
    assert (thread.written, thread.lost) == (3, 0)


def test_closing_twice_does_nothing_the_second_time(house):
    house.sink.write(answer(1))
    house.sink.close()
    house.sink.close()
