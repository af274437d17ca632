"""Several links behind one door: everything goes by its link's name, a payload is made once."""

from collections import Counter
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

from edge.far.bulk_way import BulkWay
from edge.far.ports import FarPorts
from edge.flow.pending import Pending
from edge.flow.stream_port import StreamPort
from edge.links.base import Connected, Disconnected, Received, Sent
from edge.scheduling import actions
from edge.scheduling.scheduler import Scheduler
from pipelines.frame import Encoding, Frame
from pipelines.result import Priority
from protos.wire.bulk import Ack
from protos.wire.live import Cancel, FrameBody, FrameHead
from protos.wire.session import Lane, ModelInfo, Ping, Welcome
from tests.support.endpoints import WELCOME
from tests.support.virtual import links, settings

NOW_US = 1_000_000
KEY = ("door", 7)


@dataclass
class Wire:
    """A link that keeps what it is given."""

    name: str
    sent: list[Any] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)
    fresh: int = 0
    too_large: int = 0
    bad_messages: int = 0
    unanswered: str = ""
    bytes_out: int = 0

    def send(self, *messages: Any, lane: Lane = Lane.LIVE) -> Sent:
        self.sent += [(lane, message) for message in messages]
        return Sent.ACCEPTED

    def refuse(self, connection: int, _: str) -> None:
        self.refused.append(connection)

    def open_fresh(self) -> None:
        self.fresh += 1

    def bytes_sent(self) -> int:
        return self.bytes_out


class House:
    """Ports over two links; what they report and what goes out is kept."""

    def __init__(self) -> None:
        self.wires = {name: Wire(name) for name in ("cable", "lte")}
        self.acked: list[Ack] = []
        self.orders: list[tuple[Any, Any]] = []
        self.live: list[dict[str, Any]] = []
        self.left: list[int] = []
        around: Any = SimpleNamespace(
            offloaded=0,
            answered=Counter(),
            payload_bytes=0,
            acked_live=self.acked.append,
            acked_bulk=self.acked.append,
            reachable=lambda **_: None,
            live_sent=self.left.append,
            observe_live=lambda **seen: self.live.append(seen),
            model_in=lambda welcome: welcome.models[0],
            use_model=lambda _: None,
            submit=lambda key, picture, *, rung, quality, size: self.orders.append((key, size)),
        )
        picture = np.zeros((480, 640, 3), np.uint8)
        frame = Frame(
            stream="door", seq=7, picture=picture, captured_us=1, available_us=1, captured_unix_us=1
        )
        self.pending = Pending(
            frame=frame, deadline_us=NOW_US, accepted_us=NOW_US, priority=Priority.NORMAL,
            payload=b"x", encoding=Encoding(codec="jpeg", quality=50, width_px=32, height_px=24, body_bytes=1),
        )  # fmt: skip
        self.scheduler = Scheduler(settings(links=links("cable", "lte", bytes_per_hour=1_000_000)), {})
        made: Any = list(self.wires.values())
        self.bulk = BulkWay(made, metered={}, outbox=around)
        self.ports = FarPorts(
            {KEY: self.pending},
            links=made,
            bulk=self.bulk,
            encoder=around,
            scheduler=self.scheduler,
            outbox=around,
            desk=around,
            counters=around,
            streams=[StreamPort(name="door", index=0, slot=around, priority=Priority.NORMAL)],
            clock_us=lambda: NOW_US,
            near=True,
            on_result=lambda _, __: None,
        )

    def connect(self, *names: str, welcome: Welcome = WELCOME) -> None:
        for number, name in enumerate(names, 1):
            for lane in Lane:
                self.ports.happened(name, Connected(lane, number, welcome))

    def kinds(self, name: str) -> list[type]:
        return [type(message) for _, message in self.wires[name].sent]


def model(name: str, size: tuple[int, int]) -> tuple[ModelInfo, ...]:
    return (ModelInfo(name=name, sha256="", labels=(), input_width_px=size[0], input_height_px=size[1]),)


def welcome_with(models: tuple[ModelInfo, ...]) -> Welcome:
    return Welcome(
        worker_run=bytes(16), store_id=WELCOME.store_id, models=models,
        limits=WELCOME.limits, credit=WELCOME.credit,
    )  # fmt: skip


def test_each_action_goes_over_the_link_it_names_and_over_no_other() -> None:
    house = House()
    house.connect("cable", "lte")
    for action in (
        actions.SendFrame(KEY, "lte", 50_000, probe=False),
        actions.CancelFar(KEY, "lte"),
        actions.SendPing("lte", 3),
        actions.OpenFresh("lte", "silent"),
    ):
        house.ports.act(action)
    assert house.kinds("lte") == [FrameHead, FrameBody, Cancel, Ping]
    assert house.wires["lte"].fresh == 1
    assert house.wires["cable"].sent == []
    assert house.wires["cable"].fresh == 0


def test_links_are_seen_now_and_then_and_once_more_at_the_end() -> None:
    house = House()
    house.connect("cable")
    house.ports.look(NOW_US)
    house.wires["cable"].bytes_out = 500
    house.ports.look(NOW_US + 1)
    assert house.ports.sights[0].sent_bytes == 0
    house.ports.look(NOW_US + 2, at_once=True)
    assert house.ports.sights[0].sent_bytes == 500


def test_a_frame_over_two_links_is_encoded_once_and_each_link_has_its_time() -> None:
    house = House()
    house.connect("cable", "lte")
    house.ports.act(actions.Encode(KEY, 0))
    for link in ("cable", "lte"):
        house.ports.act(actions.SendFrame(KEY, link, 50_000, probe=False))
    assert len(house.orders) == 1
    assert house.pending.sent_over == {"cable": NOW_US, "lte": NOW_US}
    assert house.kinds("cable") == house.kinds("lte") == [FrameHead, FrameBody]


def test_what_a_link_reports_is_told_to_the_scheduler_under_its_name() -> None:
    house = House()
    house.connect("lte")
    connected = {name: way.breaker.connected for name, way in house.scheduler.ways.items()}
    assert connected == {"cable": False, "lte": True}
    house.connect("cable")
    house.ports.happened("lte", Disconnected(Lane.LIVE, 1, "reset"))
    assert house.scheduler.ways["cable"].breaker.connected
    assert not house.scheduler.ways["lte"].breaker.connected
    assert (house.ports["lte"].degraded, house.ports["cable"].degraded) == ("reset", "")


def test_acknowledgements_count_whichever_link_brings_them() -> None:
    house = House()
    house.connect("cable", "lte")
    for link in house.wires:
        house.ports.happened(link, Received(Lane.LIVE, 1, Ack(batches=(1,)), NOW_US))
    assert len(house.acked) == 2


def test_a_second_worker_with_another_store_is_refused_on_its_link_alone() -> None:
    house = House()
    house.connect("cable")
    other = Welcome(
        worker_run=bytes(16), store_id="another", models=WELCOME.models,
        limits=WELCOME.limits, credit=WELCOME.credit,
    )  # fmt: skip
    house.connect("lte", welcome=other)
    assert house.wires["lte"].refused == [1, 1], "both lanes"
    assert house.wires["cable"].refused == []
    assert house.scheduler.ways["cable"].breaker.connected
    assert not house.scheduler.ways["lte"].breaker.connected
    house.ports.happened("lte", Received(Lane.BULK, 1, Ack(batches=(1,)), NOW_US))
    assert house.acked == []


def test_a_second_worker_with_another_model_answers_no_frame_and_may_still_take_records() -> None:
    house = House()
    house.connect("cable")
    house.connect("lte", welcome=welcome_with(model("other", (64, 48))))
    assert house.wires["lte"].refused == [1], "its live lane"
    assert not house.scheduler.ways["lte"].breaker.connected
    house.ports.happened("cable", Disconnected(Lane.BULK, 1, "reset"))
    assert house.bulk.current == "lte"


def test_pictures_are_made_for_the_largest_input_of_the_workers() -> None:
    house = House()
    name = WELCOME.models[0].name
    house.connect("cable", welcome=welcome_with(model(name, (160, 120))))
    house.connect("lte", welcome=welcome_with(model(name, (320, 240))))
    house.ports.act(actions.Encode(KEY, 0))
    assert house.orders == [(KEY, (320, 240))]


def test_whatever_goes_over_a_link_is_charged_to_it_once() -> None:
    house = House()
    house.connect("cable", "lte")
    cable = house.wires["cable"]
    lte_before = house.scheduler.ways[
        "lte"
    ].budget.spent_bytes  # its first pings, charged when they were decided
    cable.bytes_out = 700  # greetings
    house.ports.look(NOW_US)
    budgets = {name: way.budget for name, way in house.scheduler.ways.items()}
    assert budgets["cable"].spent_bytes == 700
    house.scheduler.spent("cable", 5_000, NOW_US)  # a frame, charged when it was decided
    cable.bytes_out += 4_900
    house.ports.look(NOW_US + 60_000)
    assert budgets["cable"].spent_bytes == 5_700, "nothing twice"
    cable.bytes_out += 3_000  # cancellations, backfill
    for later_us in (120_000, 180_000):
        house.ports.look(NOW_US + later_us)
    assert budgets["cable"].spent_bytes == cable.bytes_out == 8_600
    assert budgets["lte"].spent_bytes == lte_before


def test_the_pacing_of_the_backfill_follows_the_link_that_carries_it() -> None:
    house = House()
    house.connect("cable", "lte")
    house.ports.look(NOW_US)
    assert [s.link for s in house.ports.sights] == ["cable", "lte"]
    assert len(house.live) == 1
    house.ports.happened("cable", Disconnected(Lane.BULK, 1, "reset"))
    house.ports.happened("lte", Disconnected(Lane.BULK, 1, "reset"))
    house.ports.look(NOW_US + 60_000)
    assert len(house.live) == 1, "nobody is paced while nothing can go"


def test_the_pacing_hears_of_frames_on_the_link_that_carries_the_backfill_and_of_no_other() -> None:
    house = House()
    house.connect("cable", "lte")
    other = "lte" if house.bulk.current == "cable" else "cable"
    house.ports.act(actions.Encode(KEY, 0))
    house.ports.act(actions.SendFrame(KEY, other, 50_000, probe=False))
    assert house.left == []
    assert house.bulk.current is not None
    house.ports.act(actions.SendFrame(KEY, house.bulk.current, 50_000, probe=False))
    assert house.left == [NOW_US]
