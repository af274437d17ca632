"""The dispatcher's way to the worker: which workers it lets the agent rely on."""

from dataclasses import replace
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from edge.far.accord import Accord
from edge.far.bulk_way import STEADY_US, BulkWay
from edge.far.port import FarPort
from edge.links.base import Connected, Disconnected, LinkEvent, Received, Refused
from edge.links.memory import MemoryLink
from edge.scheduling.far.data_budget import DataBudget
from edge.scheduling.scheduler import Scheduler
from pipelines.errors import Fatal
from protos.wire.bulk import Ack
from protos.wire.session import Credit, Error, Lane, Limits, ModelInfo, RejectReason, Welcome
from tests.support.agents import HELLO
from tests.support.endpoints import WELCOME, ScriptedEndpoint
from tests.support.eventually import eventually
from tests.support.run_records import sight
from tests.support.virtual import LINK, settings
from tests.support.workers import clock_us

NOW_US = 1_000_000
OTHER = "other"


def welcome(store_id: str) -> Welcome:
    return Welcome(
        worker_run=bytes(16),
        store_id=store_id,
        models=(ModelInfo(name="thing", sha256="ab" * 32, labels=(), input_width_px=32, input_height_px=24),),
        limits=Limits(message_bytes=1, picture_px=1, decompressed_bytes=1, batch_records=1),
        credit=Credit(frames=8, bytes=1 << 20),
    )


def model_in(said: Welcome) -> ModelInfo:
    if not said.models:
        raise Fatal("the worker welcomed this agent without any model")
    return said.models[0]


class House:
    """A far port with everything around it replaced but the scheduler."""

    def __init__(self, *, link: Any = None) -> None:
        self.scheduler = Scheduler(settings(), {})
        self.bulk_reachable: list[bool] = []
        self.refused: list[int] = []
        self.acked: list[Any] = []
        self.refused_batches: list[Error] = []
        self.fresh: list[Lane] = []
        around: Any = SimpleNamespace(
            name=LINK,
            refuse=lambda connection, _: self.refused.append(connection),
            open_fresh=self.fresh.append,
            acked_live=self.acked.append,
            acked_bulk=self.acked.append,
            refused=self.refused_batches.append,
            reachable=lambda *, connected, limits=None: self.bulk_reachable.append(connected),
            model_in=model_in,
            use_model=lambda _: None,
        )
        other: Any = SimpleNamespace(name=OTHER)
        self.bulk = BulkWay([link or around, other], metered={}, outbox=around)
        self.port = FarPort(
            link=link or around,
            scheduler=self.scheduler,
            accord=Accord(),
            bulk=self.bulk,
            outbox=around,
            desk=around,
            counters=around,
            streams=(),
            pending={},
            clock_us=lambda: NOW_US,
        )

    def hear(self, event: LinkEvent) -> None:
        self.port.happened(event)

    def connect(self, number: int, store_id: str, lane: Lane = Lane.LIVE) -> None:
        self.port.happened(Connected(lane, number, welcome(store_id)))

    @property
    def connected(self) -> bool:
        return self.scheduler.ways[LINK].breaker.connected


@pytest.fixture
def house() -> House:
    return House()


def test_a_worker_with_another_record_store_than_the_first_is_not_relied_on_and_words_say_why(
    house: House,
) -> None:
    house.connect(1, "one")
    house.port.happened(Disconnected(Lane.LIVE, 1, "connection lost"))
    house.connect(2, "two")
    assert not house.connected
    assert house.refused == [2]


def test_a_worker_without_the_model_is_refused_with_words_and_binds_nobody_to_its_store(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    house.hear(Connected(Lane.LIVE, 1, replace(welcome("wrong"), models=())))
    assert house.refused == [1]
    assert "without any model" in caplog.text
    house.connect(2, "right")
    assert house.connected
    assert house.refused == [1]


def test_a_fresh_connection_that_leads_to_another_store_is_refused_and_what_went_on_with_the_first_goes_on(
    house: House,
) -> None:
    """F08"""
    house.connect(1, "one")
    house.connect(2, "two")
    assert house.refused == [2]
    assert house.connected
    assert (house.port.degraded, house.port.connections) == ("", 1)


def test_records_are_not_brought_to_another_store(house: House) -> None:
    house.connect(1, "one", Lane.BULK)
    house.port.happened(Disconnected(Lane.BULK, 1, "connection lost"))
    house.connect(2, "two", Lane.BULK)
    assert house.bulk_reachable == [True, False]
    assert house.refused == [2]


def test_a_live_connection_that_replaces_another_brings_a_fresh_one_for_the_outbox() -> None:
    """F30: a NAT that forgot one flow forgot the other too, and nothing tells of it on a lane that only sends."""
    house = House()
    house.connect(1, "one")
    assert house.fresh == []
    house.connect(2, "one")
    assert house.fresh == [Lane.BULK]


@pytest.mark.parametrize("lane", Lane)
def test_what_another_store_acknowledges_is_not_taken_for_kept(house: House, lane: Lane) -> None:
    house.connect(1, "one", lane)
    house.connect(2, "two", lane)
    ack = Ack(batches=(7,))
    house.port.happened(Received(lane, 2, ack, NOW_US))
    assert house.acked == []
    house.port.happened(Received(lane, 1, ack, NOW_US))
    assert house.acked == [ack]


def test_the_agent_goes_on_with_the_first_store_when_its_address_leads_to_another_for_a_while() -> None:
    """F08, over a link: the wrong worker is left, said in words, and tried again until the right one is back."""
    worker = ScriptedEndpoint()
    link = MemoryLink(name=LINK, endpoint=worker, clock_us=clock_us)
    house = House(link=link)
    link.start(HELLO, house.hear)
    try:
        eventually(lambda: house.connected, what="the first worker")
        worker.welcome = replace(WELCOME, store_id="another")
        link.open_fresh()
        eventually(lambda: len(worker.on(Lane.LIVE)) == 2 and worker.on(Lane.LIVE)[1].ended, what="its end")
        assert house.connected, "the first one still serves"
        link.cut()
        link.heal()
        eventually(lambda: "another" in house.port.degraded, what="words about the other store")
        worker.welcome = WELCOME
        eventually(lambda: house.connected and not house.port.degraded, what="the first store again")
    finally:
        link.close()


def test_another_worker_of_the_same_store_is_as_good_as_the_first(house: House) -> None:
    house.connect(1, "one")
    house.connect(2, "two")
    house.connect(3, "one")
    assert house.connected
    assert house.port.degraded == ""


def test_a_link_that_may_send_no_frame_gives_its_data_budget_as_the_reason(house: House) -> None:
    way = house.scheduler.ways[LINK]
    way.budget = DataBudget(bytes_per_hour=1000)
    house.connect(1, "a")
    assert house.port.state == (True, False, "not measured yet")
    way.budget.spend(1000, NOW_US)
    way.breaker.frames_vanish(NOW_US)
    assert house.port.state == (True, False, "data budget used up")


def test_while_no_worker_was_ever_there_the_state_says_what_the_last_attempt_met() -> None:
    link: Any = SimpleNamespace(name=LINK, unanswered="what answers there is no nearfar worker")
    house = House(link=link)
    assert house.port.state == (False, False, "what answers there is no nearfar worker")
    link.unanswered = ""
    assert house.port.state[2] != ""


def test_what_a_worker_refused_of_the_backfill_is_told_to_the_outbox_and_to_no_log(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    house.connect(1, "one", Lane.BULK)
    full = Error(reason=RejectReason.QUEUE_FULL, text="batch 7 dropped: too much waits", batch=7)
    house.hear(Received(Lane.BULK, 1, full, NOW_US))
    assert house.refused_batches == [full]
    unread = Error(reason=RejectReason.BAD_PAYLOAD, text="batch 8: damaged", batch=8)
    house.hear(Received(Lane.BULK, 1, unread, NOW_US))
    assert house.refused_batches == [full, unread]
    assert caplog.records == []


def test_a_worker_that_no_longer_has_the_backfill_slows_down_none_by_having_refused_batches(
    house: House,
) -> None:
    full = Error(reason=RejectReason.QUEUE_FULL, text="batch 7 dropped: too much waits", batch=7)
    house.connect(1, "one", Lane.BULK)
    house.hear(Disconnected(Lane.BULK, 1, "lost"))
    house.hear(Received(Lane.BULK, 1, full, NOW_US))
    assert house.refused_batches == []


def test_a_live_lane_refused_in_words_is_no_lost_way_for_the_backfill(house: House) -> None:
    def way_is_lost() -> bool:
        """Whether the backfill moves to a link that stands behind it in the file."""
        house.bulk.look([sight(link=LINK, connected=False), sight(link=OTHER, silent=False)], next(later_us))
        house.bulk.look([sight(link=LINK, connected=False), sight(link=OTHER, silent=False)], next(later_us))
        lost = house.bulk.current == OTHER
        both = [sight(link=LINK), sight(link=OTHER, connected=False)]
        house.bulk.look(both, next(later_us))
        house.bulk.look(both, next(later_us))
        assert house.bulk.current == LINK
        return lost

    later_us = count(NOW_US, 2 * STEADY_US)
    house.connect(1, "one", Lane.BULK)
    house.bulk.welcomed(OTHER, welcome("one").limits, NOW_US)
    assert way_is_lost()
    house.hear(Refused(Lane.LIVE, Error(reason=RejectReason.NO_MODEL, text="no such model")))
    assert not way_is_lost()
    house.connect(2, "one")
    assert way_is_lost(), "frames were taken: a live lane that is gone since is a lost one"
    house.hear(Connected(Lane.LIVE, 3, replace(welcome("one"), models=())))
    assert not way_is_lost()
