"""A drain on a worker that serves others, too."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from edge.links.base import Connected, Deliver, Received, Sent
from edge.outbox.stats import OutboxStats
from nearfar.outbox.drain import Drain
from nearfar.outbox.progress import Progress
from pipelines.errors import Retryable
from protos.wire.bulk import Ack, BulkBatch
from protos.wire.messages import ToWorker
from protos.wire.session import Error, Hello, Lane, RejectReason
from tests.support.endpoints import WELCOME
from tests.support.outboxes import AGENT, Desk, record


class CrowdedLink:
    """Its worker has no room for the first batch, and takes the others."""

    name = "drain"

    def __init__(self, refuses: int = 1) -> None:
        self.batches: list[int] = []
        self.refuses = refuses

    def start(self, _hello: Hello, deliver: Deliver) -> None:
        self._deliver = deliver
        deliver(Connected(Lane.BULK, 1, WELCOME))

    def send(self, message: ToWorker, *, lane: Lane) -> Sent:
        assert isinstance(message, BulkBatch)
        self.batches.append(message.batch)
        answer: Ack | Error = Ack(batches=(message.batch,))
        if len(self.batches) <= self.refuses:
            answer = Error(reason=RejectReason.QUEUE_FULL, text="too much waits", batch=message.batch)
        self._deliver(Received(lane, 1, answer, 0))
        return Sent.ACCEPTED

    def close(self) -> None:
        """Nothing is open."""


def test_what_the_worker_had_no_room_for_is_sent_again_and_the_drain_ends() -> None:
    desk = Desk()
    for seq in range(1, 4):
        desk.keeper.append(record(seq), desk.now_us)
    desk.turn()
    held: Any = SimpleNamespace(store=desk.store)
    link: Any = CrowdedLink()
    left = Drain(held, link, agent=AGENT, patience_s=10.0).run(threading.Event(), lambda _: None)
    assert left.empty
    assert left.batches_refused == 1
    assert len(link.batches) > 1


def test_a_worker_that_takes_nothing_ends_the_drain_with_what_it_said() -> None:
    desk = Desk()
    desk.keeper.append(record(1), desk.now_us)
    desk.turn()
    held: Any = SimpleNamespace(store=desk.store)
    link: Any = CrowdedLink(refuses=1_000_000)
    with pytest.raises(Retryable, match="the worker takes nothing more now: too much waits"):
        Drain(held, link, agent=AGENT, patience_s=0.3).run(threading.Event(), lambda _: None)
    assert desk.store.ledger().pending == 1


def test_a_drain_that_is_stopped_says_what_the_worker_refused_with(
    capsys: pytest.CaptureFixture[str],
) -> None:
    progress = Progress()
    progress.end(OutboxStats(pending=3), said="the disk is full")
    assert "3 to go" in (err := capsys.readouterr().err)
    assert "the worker said: the disk is full" in err
