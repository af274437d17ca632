"""However many calls a client makes at once on one connection, each ends in a result or in words that are counted."""

import queue
from collections import Counter
from pathlib import Path
from typing import Any

import grpc
import pytest

from protos import inference_pb2 as pb
from protos.wire import envelope
from protos.wire.live import Result
from protos.wire.session import Lane
from tests.support.agents import agent, frame, greet
from tests.support.eventually import eventually
from tests.support.grey_picture import grey_picture
from tests.support.simple_worker import Worker, ended, worker_in

REQUEST = pb.InferRequest(data=grey_picture())


def ends(calls: list[Any]) -> Counter[tuple[str, str]]:
    """(status, reason) of each call."""
    out: Counter[tuple[str, str]] = Counter()
    for call in calls:
        error = call.exception(30)
        if error is None:
            out["OK", ""] += 1
            continue
        status, words, reason = ended(error)
        assert "come back" in words, words
        out[status.name, reason] += 1
    return out


def told(worker: Worker) -> float:
    """Refusals the worker counted."""
    return worker.outcome("rejected") + worker.listener.refused_messages


@pytest.mark.parametrize("count", [150, 600])
def test_calls_at_once_on_one_connection_all_end_and_are_counted(tmp_path: Path, count: int) -> None:
    with worker_in(tmp_path) as worker:
        found = ends([worker.call.future(REQUEST, timeout=30) for _ in range(count)])
        refused = sum(number for (status, _), number in found.items() if status == "RESOURCE_EXHAUSTED")
        assert found["OK", ""] + refused == count, found
        assert told(worker) == refused
        assert worker.outcome("answered") == found["OK", ""]


def test_calls_beyond_every_place_are_told_what_to_do_and_an_agent_is_served_all_the_same(
    tmp_path: Path,
) -> None:
    with worker_in(tmp_path) as worker:
        worker.detector.gate.clear()
        calls = [worker.call.future(REQUEST, timeout=60) for _ in range(200)]
        eventually(lambda: sum(call.done() for call in calls) == 192, what="those without a place refused")
        with agent(worker.listener.address) as gateway:
            greet(gateway)
            gateway.send(*frame(1, grey_picture()))
            eventually(lambda: worker.service.backlog.waiting()[0] >= 8, what="its frame in the queue")
            worker.detector.gate.set()
            assert gateway.until(Result).seq == 1
        found = ends(calls)
        assert found["OK", ""] == 8
        assert found["RESOURCE_EXHAUSTED", "over_credit"] + found["RESOURCE_EXHAUSTED", "queue_full"] == 192
        assert told(worker) == 192


def test_calls_begun_and_given_up_by_the_thousand_change_nothing_for_the_next(tmp_path: Path) -> None:
    with worker_in(tmp_path) as worker:
        for _ in range(2000):
            worker.call.future(REQUEST, timeout=30).cancel()
        assert len(worker.infer(data=grey_picture()).boxes) == 1
        eventually(lambda: worker.service.backlog.waiting() == (0, 0), what="an empty queue")


def test_one_stream_too_many_on_a_connection_is_told_to_open_another(tmp_path: Path) -> None:
    with worker_in(tmp_path) as worker, agent(worker.listener.address) as gateway:
        nothing: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        live: Any = worker.channel.stream_stream(envelope.METHODS[Lane.LIVE], None, None)
        streams = [live(iter(nothing.get, None), timeout=30) for _ in range(17)]
        try:
            eventually(lambda: any(stream.done() for stream in streams), what="one refused")
            (refused,) = [stream for stream in streams if stream.done()]
            assert refused.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert "open another one" in refused.details()
            assert worker.listener.refused_messages == 1
            greet(gateway)
        finally:
            for stream in streams:
                stream.cancel()
                nothing.put(None)  # lets the client's own threads go
