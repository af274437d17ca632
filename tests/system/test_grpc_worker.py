"""`nearfar cloud` behind gRPC: the ready line names it, health clients and agents are served, and it drains."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2  # type: ignore[import-untyped]

from protos.wire.bulk import Ack
from protos.wire.live import Result
from protos.wire.session import Ping, Pong, Welcome
from tests.support.agents import HELLO, agent, frame
from tests.support.eventually import eventually
from tests.support.grey_picture import grey_picture
from tests.support.workers import WorkerProcess

SETS = ("listen.grpc.address='127.0.0.1:0'",)


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[WorkerProcess]:
    made = WorkerProcess(tmp_path / "worker", delay="700ms", sets=SETS)
    yield made
    made.kill()


def health_of(channel: grpc.Channel) -> str:
    check: Any = channel.unary_unary(
        "/grpc.health.v1.Health/Check",
        health_pb2.HealthCheckRequest.SerializeToString,
        health_pb2.HealthCheckResponse.FromString,
    )
    answer = check(health_pb2.HealthCheckRequest(), timeout=5)
    return str(health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status))


def test_one_worker_serves_both_transports_at_once(worker: WorkerProcess) -> None:
    assert worker.ready["grpc"].startswith("grpc://127.0.0.1:")
    for address in (worker.ready["zmq"], worker.ready["grpc"]):
        with agent(address) as gateway:
            gateway.send(HELLO)
            assert gateway.until(Welcome).store_id == worker.ready["store_id"]
    assert worker.terminate() == 0


def test_a_worker_that_drains_says_not_serving_and_finishes_what_it_has(worker: WorkerProcess) -> None:
    target = worker.ready["grpc"].removeprefix("grpc://")
    with (
        closing(grpc.insecure_channel(target, options=(("grpc.enable_http_proxy", 0),))) as channel,
        agent(worker.ready["grpc"]) as gateway,
    ):
        assert health_of(channel) == "SERVING"
        gateway.send(HELLO)
        gateway.until(Welcome)
        gateway.send(*frame(1, grey_picture()), Ping(nonce=1, sent_mono_us=0))
        gateway.until(Pong)  # so both have arrived before the signal
        worker.process.terminate()
        eventually(lambda: health_of(channel) == "NOT_SERVING", what="NOT_SERVING while it drains")
        assert gateway.until(Result).seq == 1
        assert gateway.until(Ack).records[0].first == 1
    assert worker.process.wait(15.0) == 0
