"""The dispatcher's way to the worker: which workers it lets the agent rely on."""

from types import SimpleNamespace
from typing import Any

import pytest

from edge.far_port import FarPort
from edge.links.base import Connected, Disconnected
from edge.scheduling.scheduler import Scheduler
from protos.wire.session import Credit, Lane, Limits, ModelInfo, Welcome
from tests.support.virtual import settings

NOW_US = 1_000_000


def welcome(store_id: str) -> Welcome:
    return Welcome(
        worker_run=bytes(16),
        store_id=store_id,
        models=(ModelInfo(name="thing", sha256="ab" * 32, labels=(), input_width_px=32, input_height_px=24),),
        limits=Limits(message_bytes=1, picture_px=1, decompressed_bytes=1, batch_records=1),
        credit=Credit(frames=8, bytes=1 << 20),
    )


class House:
    """A far port with everything around it replaced but the scheduler."""

    def __init__(self) -> None:
        self.scheduler = Scheduler(settings(), {})
        self.bulk_reachable: list[bool] = []
        around: Any = SimpleNamespace(
            reachable=lambda *, connected, limits=None: self.bulk_reachable.append(connected),
            choose_model=lambda said: said.models[0],
        )
        self.port = FarPort(
            link=around,
            encoder=around,
            scheduler=self.scheduler,
            outbox=around,
            desk=around,
            counters=around,
            streams=(),
            pending={},
            clock_us=lambda: NOW_US,
        )

    def connect(self, number: int, store_id: str, lane: Lane = Lane.LIVE) -> None:
        self.port.happened(Connected(lane, number, welcome(store_id)))

    @property
    def connected(self) -> bool:
        return self.scheduler.far.breaker.connected


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
    assert "two" in house.port.degraded
    assert "store.url" in house.port.degraded


def test_a_fresh_connection_that_leads_to_another_store_ends_what_went_on_with_the_first(
    house: House,
) -> None:
    house.connect(1, "one")
    assert house.connected
    house.connect(2, "two")
    assert not house.connected


def test_records_are_not_brought_to_another_store(house: House) -> None:
    house.connect(1, "one", Lane.BULK)
    house.connect(2, "two", Lane.BULK)
    assert house.bulk_reachable == [True, False]


def test_another_worker_of_the_same_store_is_as_good_as_the_first(house: House) -> None:
    house.connect(1, "one")
    house.connect(2, "two")
    house.connect(3, "one")
    assert house.connected
    assert house.port.degraded == ""
