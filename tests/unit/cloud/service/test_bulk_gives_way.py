"""Work that has time is done in the gaps between live frames, and never starves."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

from cloud.backlog.front import MOST_GIVING_WAY_S
from cloud.store.payloads.writer import PayloadWriter
from edge.outbox.sending.uplink import ACK_WITHIN_US
from protos.wire.bulk import Ack
from protos.wire.live import Result
from protos.wire.session import Lane
from tests.support.eventually import eventually
from tests.support.peers import FakePeer
from tests.support.rigs import HELLO, Rig, rig_in
from tests.support.workers import clock_us, unix_us
from tests.unit.cloud.service.test_service_bulk import batch
from tests.unit.cloud.store.test_payload_writer import ScriptedPayloads, payload

MOST = "cloud.backlog.front.MOST_GIVING_WAY_S"


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with rig_in(tmp_path) as made:
        made.welcome()
        yield made


def hold(rig: Rig, frames: int) -> None:
    """One frame runs until the gate opens, the others wait behind it."""
    rig.detector.gate.clear()
    rig.frame(1)
    eventually(rig.detector.running.is_set, what="a run")
    for seq in range(2, 1 + frames):
        rig.frame(seq)


def bulk(rig: Rig) -> FakePeer:
    peer, session = rig.connect(replace(HELLO, lane=Lane.BULK))
    session.receive(batch(1, 1), clock_us())
    return peer


def gives_way(rig: Rig) -> bool:
    return rig.service.backlog.giving_way > 0


def test_a_batch_waits_while_frames_wait_and_is_opened_when_the_last_of_them_has_started(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MOST, 60.0)
    hold(rig, 3)
    peer = bulk(rig)
    eventually(lambda: gives_way(rig), what="a batch that waits")
    assert peer.all(Ack) == []
    assert list(rig.store.identities()) == []
    rig.detector.gate.set()
    assert peer.wait(Ack)[0].batches == (1,)
    assert len(rig.peer.wait(Result, 3)) == 3
    assert not gives_way(rig)


def test_a_run_alone_holds_up_no_batch(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MOST, 60.0)
    hold(rig, 1)
    assert bulk(rig).wait(Ack)[0].batches == (1,)


def test_frames_that_never_stop_waiting_do_not_starve_a_batch(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MOST, 0.05)
    hold(rig, 3)
    assert bulk(rig).wait(Ack)[0].batches == (1,)
    assert rig.service.backlog.waiting()[0] == 2


def test_a_batch_gives_way_for_less_time_than_its_agent_waits_for_the_ack() -> None:
    assert 2 * MOST_GIVING_WAY_S * 1e6 <= ACK_WITHIN_US


@pytest.mark.parametrize("end", ["drain", "stop"])
def test_a_worker_that_ends_waits_for_no_gap(rig: Rig, monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    monkeypatch.setattr(MOST, 600.0)
    hold(rig, 3)
    peer = bulk(rig)
    eventually(lambda: gives_way(rig), what="a batch that waits")
    if end == "stop":
        rig.service.stop(0.2)
    else:
        assert not rig.service.drain(200_000)
        assert peer.wait(Ack)[0].batches == (1,)
    assert not gives_way(rig)


def test_pictures_are_put_away_when_frames_leave_room() -> None:
    store = ScriptedPayloads()
    room = Event()
    writer = PayloadWriter(store, acknowledge=lambda _: None, unix_us=unix_us)
    asked: list[int] = []

    def give_way() -> None:
        asked.append(1)
        room.wait(10.0)

    writer.give_way_to(give_way)
    writer.start()
    try:
        writer.submit(payload(1))
        eventually(lambda: asked, what="a picture that waits")
        assert store.taken == []
        room.set()
        assert writer.flush(5_000_000)
        assert store.taken == [1]
    finally:
        room.set()
        writer.halt()
        writer.thread.join(5.0)
