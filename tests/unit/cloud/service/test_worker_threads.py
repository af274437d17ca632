"""No single exception ends a thread of the worker in silence: its turn is counted, the next one works."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cloud.keeping.batches import batch_entry
from cloud.replying.replies import result_of
from cloud.store.writer import StoreWriter
from pipelines.detectors.base import CancelToken
from pipelines.frame import Picture
from pipelines.result import Detections
from protos.wire.bulk import Ack
from protos.wire.live import Reject, Result
from protos.wire.session import Lane, RejectReason
from tests.support.eventually import eventually
from tests.support.rigs import HELLO, Rig, rig_in
from tests.support.workers import GatedDetector, clock_us
from tests.unit.cloud.service.test_service_bulk import batch


class Once:
    """Raises the first time it is called and does as before from then on."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self.raised = 0

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if not self.raised:
            self.raised += 1
            raise ZeroDivisionError("nobody foresaw this")
        return self._real(*arguments, **named)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with rig_in(tmp_path) as made:
        yield made


def faults(rig: Rig, thread: str) -> float:
    return rig.service.metrics.value("nearfar_worker_faults_total", thread=thread)


def test_a_batch_that_breaks_its_thread_costs_only_itself(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cloud.keeping.backfill.batch_entry", Once(batch_entry))
    peer, session = rig.connect(replace(HELLO, lane=Lane.BULK))
    for number in (1, 2):
        session.receive(batch(number, number), clock_us())
    assert peer.wait(Ack)[0].batches == (2,)
    assert faults(rig, "bulk") == 1
    assert rig.service.not_ready() == []


def test_a_tick_that_fails_is_counted_and_the_next_one_comes(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    once = Once(rig.service.backlog.sweep)
    monkeypatch.setattr(rig.service.backlog, "sweep", once)
    rig.welcome()
    rig.head(1, budget_us=1_000)
    assert rig.peer.wait(Reject)[0].reason is RejectReason.EXPIRED
    assert faults(rig, "timer") == 1


def test_a_result_nobody_can_make_sense_of_is_rejected_and_the_instance_goes_on(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Senseless(GatedDetector):
        def detect(self, picture: Picture, cancel: CancelToken | None = None) -> Detections:
            return None  # type: ignore[return-value]

    rig.welcome()
    with monkeypatch.context() as patched:
        patched.setattr(rig.detector, "detect", Senseless().detect)
        rig.frame(1)
        assert rig.peer.wait(Reject)[0].reason is RejectReason.FAILED
    assert faults(rig, "model") == 1
    rig.frame(2)
    assert rig.peer.wait(Result)[0].seq == 2
    assert rig.service.drain(5_000_000), "its place is free"


def test_a_reply_that_cannot_be_made_ends_no_instance(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cloud.replying.outcomes.result_of", Once(result_of))
    rig.welcome()
    for seq in (1, 2):
        rig.frame(seq)
    assert rig.peer.wait(Result)[0].seq == 2
    assert faults(rig, "model") == 1
    assert rig.service.drain(5_000_000)


def test_a_worker_one_of_whose_threads_has_ended_is_not_ready_and_names_it(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threading, "excepthook", lambda _: None)

    def end(*_: object) -> None:
        raise SystemExit

    with monkeypatch.context() as patched:
        patched.setattr(StoreWriter, "_write", end)
        rig.welcome()
        rig.frame(1)
        eventually(lambda: rig.service.not_ready() != [], what="a thread that is gone")
    assert "nearfar-store" in rig.service.not_ready()[0]
