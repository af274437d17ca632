"""Several gateways bring up an outage at once, and the worker has room for few of their batches."""

import logging
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cloud.keeping.bulk_intake import BulkIntake
from protos.wire.bulk import Ack
from protos.wire.session import Error, Lane
from tests.support.eventually import eventually
from tests.support.outboxes import LIMITS, RUN, Desk, record
from tests.support.rigs import HELLO, Rig, rig_in
from tests.support.workers import clock_us

GATEWAYS = ("gw-a", "gw-b", "gw-c", "gw-d", "gw-e")
RECORDS = 300
ROOM = 4
STEP_US = 20_000
SMALL = replace(LIMITS, batch_records=20)


class Gateway:
    """An outbox with records of an outage, connected to the worker; its time goes as it is told."""

    def __init__(self, rig: Rig, name: str) -> None:
        self.desk = Desk()
        self.peer, self.session = rig.connect(replace(HELLO, agent=name, run=RUN, lane=Lane.BULK))
        self._heard = 0
        for seq in range(1, RECORDS + 1):
            self.desk.keeper.append(record(seq), self.desk.now_us)
        self.desk.turn()
        self.desk.keeper.backfill.reachable(connected=True, limits=SMALL, now_us=self.desk.now_us)

    @property
    def pending(self) -> int:
        return self.desk.keeper.stats().pending

    @property
    def refused(self) -> int:
        return self.desk.keeper.stats().batches_refused

    @property
    def taken(self) -> int:
        stats = self.desk.keeper.stats()
        return stats.batches_sent - stats.batches_refused

    def step(self) -> None:
        """A moment passes: what may go goes to the worker, what it said is heard."""
        desk = self.desk
        desk.now_us += STEP_US
        desk.keeper.backfill.pacing.observe(
            in_flight_bytes=0, over_budget=True, bytes_per_s=1e9, queueing_us=0, now_us=desk.now_us
        )
        desk.turn()
        batches, desk.cloud.batches = desk.cloud.batches, []
        for batch in batches:
            self.session.receive(batch, clock_us())
        sent = self.peer.sent
        for message in sent[self._heard :]:
            if isinstance(message, Ack):
                desk.keeper.acked_bulk(message, desk.now_us)
            elif isinstance(message, Error):
                desk.keeper.backfill.refused(message, desk.now_us)
        self._heard = len(sent)


def test_several_draining_gateways_on_one_small_worker_lose_nothing_and_warn_of_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="edge")
    may_open = threading.Event()

    def small(*arguments: Any, give_way: Callable[[], None], **more: Any) -> BulkIntake[Any, Any]:
        """A worker that has little room and no time until it may open batches."""

        def busy() -> None:
            may_open.wait(10.0)
            give_way()

        return BulkIntake(*arguments, give_way=busy, most=ROOM, **more)

    monkeypatch.setattr("cloud.keeping.backfill.BulkIntake", small)
    with rig_in(tmp_path) as rig:
        gateways = [Gateway(rig, name) for name in GATEWAYS]
        for _ in range(40):
            for gateway in gateways:
                gateway.step()
        refused = [gateway.refused for gateway in gateways]
        assert all(refused), "a gateway learns that there is no room"
        assert max(refused) <= 20, "and asks seldom from then on"
        assert all(gateway.taken for gateway in gateways), "each has got one in"
        assert [r.levelname for r in caplog.records] == ["INFO"] * len(gateways), "one line a gateway"

        may_open.set()

        def drained() -> bool:
            for gateway in gateways:
                gateway.step()
            return not any(gateway.pending for gateway in gateways)

        eventually(drained, within_s=30.0)
        kept = Counter((i.agent, i.seq) for i in rig.store.identities())
        assert kept == Counter((name, seq) for name in GATEWAYS for seq in range(1, RECORDS + 1))
        dropped = rig.service.metrics.value("nearfar_worker_bulk_batches_total", outcome="dropped")
        assert dropped == sum(gateway.refused for gateway in gateways)
        assert not [r for r in caplog.records if r.levelno > logging.INFO]
        assert all(gateway.desk.store.ledger().balance == 0 for gateway in gateways)
