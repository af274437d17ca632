"""However a worker hangs, SIGTERM ends it in the time its file promises."""

import itertools
import signal
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pipelines.codecs.jpeg import JpegCodec
from protos.wire.live import Reject
from protos.wire.session import Ping, Pong, RejectReason, Welcome
from tests.support.agents import HELLO, Agent, agent, frame
from tests.support.eventually import eventually
from tests.support.rig import Process, free_port

pytestmark = pytest.mark.alone

INSTANCES = 4
DRAIN_S = 1.0
GRACE_S = 1.5
WORKER = """\
version: 1
name: stuck-worker
state_dir: {root}
drain: {drain_s}s
listen:
  {kind}: {{address: "127.0.0.1:{port}"}}
models:
  thing:
    detector: {{kind: synthetic, delay: 1h, labels: [thing]}}
    instances: {instances}
    warm_up: 0
"""


def waiting(gateway: Agent, nonce: int) -> int:
    """Frames the worker holds that no instance has begun."""
    gateway.send(Ping(nonce=nonce, sent_mono_us=0))
    return gateway.until(Pong).load.queue_frames


@pytest.mark.parametrize("kind", ["zmq", "grpc"])
def test_a_worker_whose_instances_never_come_back_ends_in_time_and_rejects_what_it_never_began(
    kind: str, tmp_path: Path
) -> None:
    path, port = tmp_path / "worker.yaml", free_port()
    path.write_text(WORKER.format(root=tmp_path, drain_s=DRAIN_S, kind=kind, port=port, instances=INSTANCES))
    worker = Process(["cloud", str(path)], tmp_path / "worker.log")
    data, encoding = JpegCodec().encode(np.zeros((48, 64, 3), np.uint8), quality=80)
    try:
        with agent(str(worker.wait_ready().ready[kind])) as gateway:
            gateway.send(HELLO)
            gateway.until(Welcome)
            for seq in range(1, INSTANCES + 3):  # one each, and two that nobody can take
                head, body = frame(seq, data)
                gateway.send(replace(head, encoding=encoding, worker_budget_us=3_000_000_000), body)
            nonces = itertools.count(1)
            eventually(lambda: waiting(gateway, next(nonces)) == 2, what="a run on every instance")
            begun_s = time.monotonic()
            worker.signal(signal.SIGTERM)
            rejects = [gateway.until(Reject) for _ in range(2)]
            code = worker.popen.wait(DRAIN_S + GRACE_S + 5.0)
            took_s = time.monotonic() - begun_s
    finally:
        worker.end()
    assert took_s <= DRAIN_S + GRACE_S
    assert code == 1, "work was left over"
    assert {reject.reason for reject in rejects} == {RejectReason.DRAINING}
