"""Which link carries the backfill: unmetered and in budget first, moved without bringing anything up twice."""

import threading
from typing import Any

import pytest

from edge.far.bulk_way import LEAVE_WITHIN_US, STEADY_US, BulkWay
from edge.far.sight import LinkSight
from edge.links.base import Sent
from protos.wire.bulk import BulkBatch
from protos.wire.session import Lane, Limits
from tests.support.run_records import sight

NOW_US = 1_000_000
LIMITS = Limits(message_bytes=1 << 20, picture_px=1, decompressed_bytes=1 << 20, batch_records=10)


class Lte:
    """A link that takes what its bulk lane is given."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.batches: list[int] = []
        self.answer = Sent.ACCEPTED

    def send(self, message: BulkBatch, *, lane: Lane) -> Sent:
        assert lane is Lane.BULK
        if self.answer is Sent.ACCEPTED:
            self.batches.append(message.batch)
        return self.answer


class Way:
    """Two or more links; `told` is what the outbox heard about its way."""

    def __init__(self, *names: str, metered: tuple[str, ...] = ()) -> None:
        self.links = {name: Lte(name) for name in names}
        self.told: list[tuple[bool, Limits | None]] = []
        self.now_us = NOW_US
        outbox: Any = self
        links: Any = list(self.links.values())
        self.bulk = BulkWay(links, metered=dict.fromkeys(metered, True), outbox=outbox)
        self._batch = 0

    def reachable(self, *, connected: bool, limits: Limits | None = None) -> None:
        self.told.append((connected, limits))

    def up(self, *names: str) -> None:
        for name in names:
            self.bulk.welcomed(name, LIMITS, self.now_us)

    def send(self) -> Sent:
        self._batch += 1
        return self.bulk.send(BulkBatch(batch=self._batch, records_zstd=b"x" * 100, records_bytes=100))

    def look(self, *sights: LinkSight, after_us: int = 50_000) -> str | None:
        self.now_us += after_us
        self.bulk.look(sights, self.now_us)
        return self.bulk.current


def good(link: str, **changes: Any) -> LinkSight:
    return sight(link=link, in_budget=True, reason="", **changes)


def bad(link: str, **changes: Any) -> LinkSight:
    return sight(link=link, **changes)


def test_without_a_welcomed_bulk_lane_nothing_goes() -> None:
    assert Way().send() is Sent.DOWN
    assert Way("cable", "lte").send() is Sent.DOWN


def test_the_first_lane_that_is_there_carries_the_backfill_and_the_outbox_learns_its_limits() -> None:
    way = Way("cable", "lte")
    way.up("lte")
    assert (way.bulk.current, way.told) == ("lte", [(True, LIMITS)])
    assert way.send() is Sent.ACCEPTED
    assert way.links["lte"].batches == [1]
    way.up("cable")
    assert way.told == [(True, LIMITS)], "another lane that comes changes nothing by itself"


def test_when_its_link_is_lost_it_goes_over_the_other_at_once_and_back_to_none_without_any() -> None:
    way = Way("cable", "lte")
    way.up("cable", "lte")
    way.send()
    way.bulk.lost("cable", way.now_us)
    assert way.bulk.current == "lte"
    assert way.told == [(True, LIMITS)] * 2, "what was out may be sent again"
    way.bulk.lost("lte", way.now_us)
    assert way.told[-1] == (False, None)
    assert way.send() is Sent.DOWN


def test_a_link_that_carries_nothing_may_go_without_a_word() -> None:
    way = Way("cable", "lte")
    way.up("cable", "lte")
    way.bulk.lost("lte", way.now_us)
    assert (way.bulk.current, len(way.told)) == ("cable", 1)


def test_the_same_link_welcomed_anew_is_a_new_way() -> None:
    way = Way("cable")
    way.up("cable")
    way.up("cable")
    assert way.told == [(True, LIMITS)] * 2


@pytest.mark.parametrize(
    ("cable", "lte", "metered", "chosen"),
    [
        (good("cable"), good("lte"), ("cable",), "lte"),
        (good("cable"), good("lte"), ("lte",), "cable"),
        (good("cable"), bad("lte"), ("cable",), "lte"),  # over budget, but it costs nothing
        (bad("cable"), good("lte"), (), "lte"),
        (bad("cable", silent=True), good("lte"), ("lte",), "lte"),  # what answers nothing is no way
        (bad("cable"), good("lte", budget_left_bytes=0), (), "cable"),
        (good("cable"), good("lte"), (), "cable"),  # equally good: it stays
    ],
    ids=["unmetered", "stays", "unmetered-first", "in-budget", "silent", "spent", "equal"],
)
def test_the_best_link_carries_it(
    cable: LinkSight, lte: LinkSight, metered: tuple[str, ...], chosen: str
) -> None:
    way = Way("cable", "lte", metered=metered)
    way.up("cable", "lte")
    for _ in range(60):
        way.look(cable, lte)
    assert way.bulk.current == chosen


def gone(link: str) -> LinkSight:
    return bad(link, connected=False)


def test_a_free_link_whose_worker_takes_no_frames_carries_it_before_one_that_costs() -> None:
    way = Way("cable", "lte", metered=("lte",))
    way.up("cable", "lte")
    way.bulk.refused("cable", Lane.LIVE)
    for _ in range(60):
        way.look(gone("cable"), good("lte"))
    assert way.bulk.current == "cable"


@pytest.mark.parametrize("lane", [None, Lane.BULK])
def test_a_free_link_whose_frames_get_no_answer_at_all_is_left_for_one_that_costs(lane: Lane | None) -> None:
    way = Way("cable", "lte", metered=("lte",))
    way.up("cable", "lte")
    way.bulk.refused("cable", Lane.LIVE)
    way.bulk.taken("cable")  # and lost since
    if lane is not None:
        way.bulk.refused("cable", lane)
    for _ in range(60):
        way.look(gone("cable"), good("lte"))
    assert way.bulk.current == "lte"


def test_a_link_that_is_better_for_a_moment_moves_nothing() -> None:
    way = Way("cable", "lte")
    way.up("cable", "lte")
    for _ in range(10):
        way.look(bad("cable"), good("lte"), after_us=STEADY_US - 100_000)
        assert way.look(good("cable"), good("lte")) == "cable"
    assert way.send() is Sent.ACCEPTED


def test_it_moves_once_what_is_out_is_acknowledged_and_starts_nothing_meanwhile() -> None:
    way = Way("lte", "cable", metered=("lte",))
    way.up("lte")
    way.send()
    way.up("cable")
    way.look(good("lte"), good("cable"))
    assert way.look(good("lte"), good("cable"), after_us=STEADY_US) == "lte"
    assert way.send() is Sent.FULL
    way.bulk.settled((1,), way.now_us)
    assert way.bulk.current == "cable"
    assert way.send() is Sent.ACCEPTED
    assert (way.links["lte"].batches, way.links["cable"].batches) == ([1], [3])


def test_what_is_never_acknowledged_does_not_hold_it_for_ever() -> None:
    way = Way("lte", "cable", metered=("lte",))
    way.up("lte", "cable")
    way.send()
    for _ in range(2):
        way.look(good("lte"), good("cable"), after_us=STEADY_US)
    assert way.look(good("lte"), good("cable"), after_us=LEAVE_WITHIN_US) == "cable"


def test_with_every_data_budget_spent_it_waits_and_goes_on_when_one_refills() -> None:
    way = Way("lte")
    way.up("lte")
    assert way.look(good("lte", budget_left_bytes=-5)) is None
    assert [connected for connected, _ in way.told] == [True, False]
    assert way.look(good("lte", budget_left_bytes=-1)) is None
    assert len(way.told) == 2
    assert way.look(good("lte", budget_left_bytes=10)) == "lte"
    assert way.told[-1] == (True, LIMITS)


def test_a_link_that_is_slow_to_take_a_batch_holds_up_nobody_who_decides() -> None:
    way = Way("cable", "lte")
    way.up("cable", "lte")
    entered, go_on = threading.Event(), threading.Event()

    def slow(message: BulkBatch, *, lane: Lane) -> Sent:
        entered.set()
        assert go_on.wait(10)
        return Sent.ACCEPTED

    way.links["cable"].send = slow  # type: ignore[method-assign]
    sender = threading.Thread(target=way.send)

    def decide() -> None:
        way.bulk.settled((7,), way.now_us)
        way.bulk.lost("cable", way.now_us)

    decider = threading.Thread(target=decide)
    sender.start()
    assert entered.wait(5)
    decider.start()
    decider.join(5)
    waits = decider.is_alive()
    go_on.set()
    sender.join()
    decider.join()
    assert not waits
    assert way.bulk.current == "lte"
    assert "0 batches out" in repr(way.bulk), "what went the earlier way is not waited for on this one"


def test_a_batch_that_is_acknowledged_before_its_send_returns_is_not_waited_for() -> None:
    way = Way("cable")
    way.up("cable")

    def quick(message: BulkBatch, *, lane: Lane) -> Sent:
        way.bulk.settled((message.batch,), way.now_us)
        return Sent.ACCEPTED

    way.links["cable"].send = quick  # type: ignore[method-assign]
    assert way.send() is Sent.ACCEPTED
    assert "0 batches out" in repr(way.bulk)


@pytest.mark.parametrize("sent", [Sent.FULL, Sent.DOWN, Sent.TOO_LARGE])
def test_a_batch_the_link_did_not_take_is_not_waited_for(sent: Sent) -> None:
    way = Way("cable")
    way.up("cable")
    way.links["cable"].answer = sent
    assert way.send() is sent
    assert "0 batches out" in repr(way.bulk)
