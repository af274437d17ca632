"""What makes a frame worth sending: each price, each bound and each fallback decides where it is the only difference."""

from typing import Any

import pytest

from edge.scheduling import actions
from edge.scheduling.far.way import PING_BYTES
from edge.scheduling.rung import Rung
from edge.scheduling.settings import LinkSettings, SmallNear
from pipelines.result import AnsweredBy, Load, Priority, WorkerTiming
from tests.support.virtual import LADDER, MS, World, links, world

FPS_25 = 40 * MS


def rung(accuracy: float, *, scale: float = 1.0) -> Rung:
    return Rung(codec="jpeg", quality=50, scale=scale, accuracy=accuracy)


def offered(w: World, seq: int) -> list[actions.Action] | None:
    """What is decided on a frame that becomes available now."""
    key, deadline_us = ("s", seq), w.now_us + 100 * MS
    w.deadlines[key] = deadline_us
    return w.scheduler.offer(key, captured_us=w.now_us, deadline_us=deadline_us, now_us=w.now_us)


def sampled(w: World) -> None:
    """The link was asked just now: what is sent next is not sent to learn."""
    w.frame(900)
    w.run_until(w.now_us + 150 * MS)


def goes_far(decided: list[actions.Action] | None) -> bool:
    return any(isinstance(action, actions.Encode) for action in decided or ())


# -- prices and bounds ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("min_p", "goes"), [(0.4, True), (0.6, False)])
def test_a_frame_that_is_in_time_every_other_time_is_sent_where_that_is_enough(min_p, goes):
    w = world(min_p=min_p)
    w.run_frames(20, every_us=FPS_25)
    sampled(w)
    link = w.way.link
    nominal = link.nominal(size_bytes=20_000, in_flight_bytes=0, now_us=w.now_us)
    for i in range(30):  # the last 30 replies were quick and slow by turns
        worker_us = (15 if i % 2 else 140) * MS
        link.observe_frame(
            size_bytes=20_000,
            sent_us=w.now_us - 22 * MS - worker_us,
            arrived_us=w.now_us,
            nominal=nominal,
            timing=WorkerTiming(head_mono_us=0, body_mono_us=1600, resident_us=worker_us),
        )
    p = w.way.forecast(w.now_us).p_on_time(20_000, 90 * MS)
    assert 0.45 <= p <= 0.55
    assert goes_far(offered(w, 1000)) is goes


@pytest.mark.parametrize(("byte_price", "best"), [(0.0, 0), (0.01, 2), (0.05, 3)])
def test_the_dearer_a_byte_the_lower_the_rung(byte_price, best):
    w = world(ladder=LADDER, byte_price=byte_price)
    w.run_frames(40, every_us=FPS_25)
    assert {w.rungs[key] for key in list(w.rungs)[10:]} == {best}


def test_where_no_rung_is_worth_its_bytes_near_answers():
    w = world(ladder=LADDER, byte_price=0.5)
    w.run_frames(40, every_us=FPS_25)
    assert w.share(AnsweredBy.NEAR, first_seq=5) >= 0.85, "all but what is sent to learn"


@pytest.mark.parametrize(("load_price", "goes"), [(0.0, True), (0.2, True), (0.6, False)])
def test_a_frame_that_others_wait_behind_costs_what_the_recipe_says(load_price, goes):
    w = world(load_price=load_price)
    w.rtt_us = lambda _: 5 * MS
    w.worker_us = lambda _: 10 * MS
    w.run_frames(20, every_us=FPS_25)
    sampled(w)
    w.way.link.observe_load(Load(queue_frames=1, queue_us=10 * MS, service_p50_us=10 * MS), w.now_us)
    assert w.way.forecast(w.now_us).p_on_time(20_000, 90 * MS) == 1.0
    assert goes_far(offered(w, 1000)) is goes


def test_what_takes_too_long_to_encode_is_not_encoded():
    w = world()
    w.run_frames(10, every_us=FPS_25)
    w.encode_us = 85 * MS
    w.run_frames(20, every_us=3 * FPS_25, first_seq=11)
    known = len(w.rungs)
    w.run_frames(20, every_us=3 * FPS_25, first_seq=31)
    assert len(w.rungs) == known
    assert w.late() == []


# -- links ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("small_rung", "carries"), [(0.97, "cable"), (0.8, "lte")])
def test_a_link_that_costs_money_is_used_where_it_is_worth_clearly_more(small_rung, carries):
    w = world(
        connect=False,
        byte_price=0.0,
        ladder=(rung(0.98), rung(small_rung, scale=0.5)),
        links=(LinkSettings(name="lte", metered=True), LinkSettings(name="cable")),
    )
    w.wires["cable"].bytes_per_us = 0.2  # the small rung takes 25 ms, the large one could never be in time
    w.connect()
    w.run_until(w.now_us + 300 * MS)
    w.run_frames(100, every_us=2 * FPS_25)
    over = [link for _, key, link in w.sent_over if key[1] > 50]
    assert over.count(carries) >= 0.8 * len(over)
    assert w.late() == []


def duplicating(*, lte_rtt_us: int) -> World:
    chosen: dict[str, Any] = {"duplicate": frozenset({Priority.NORMAL}), "duplicate_share": 1.0, "min_p": 0.3}
    w = world(connect=False, links=links("cable", "lte"), **chosen)
    w.wires["lte"].rtt_us = lambda _: lte_rtt_us
    w.connect()
    w.run_until(w.now_us + 300 * MS)
    w.run_frames(20, every_us=2 * FPS_25)
    return w


def test_nothing_is_sent_twice_over_a_link_that_could_not_be_in_time():
    over = {
        rtt_ms: [link for _, key, link in duplicating(lte_rtt_us=rtt_ms * MS).sent_over if key[1] > 5]
        for rtt_ms in (30, 92)
    }
    assert set(over[30]) == {"cable", "lte"}
    assert set(over[92]) == {"cable"}


def test_the_twin_of_an_answered_frame_is_called_off_on_the_other_link():
    w = duplicating(lte_rtt_us=30 * MS)
    w.frame(21)
    w.run_until(w.now_us + 10 * MS)
    assert {link for _, key, link in w.sent_over if key == ("s", 21)} == {"cable", "lte"}
    timing = WorkerTiming(head_mono_us=0, body_mono_us=1600, resident_us=0)
    decided = w.scheduler.result(("s", 21), link="cable", timing=timing, load=Load(), now_us=w.now_us)
    assert actions.CancelFar(("s", 21), "lte") in decided


def test_pings_are_paid_from_the_data_budget():
    w = world(links=links("lte", bytes_per_day=1_000_000_000))
    before, pings = w.way.budget.spent_bytes, w.pings
    w.run_until(w.now_us + 5_000 * MS)
    assert w.pings - pings >= 20
    assert w.way.budget.spent_bytes - before == (w.pings - pings) * PING_BYTES


# -- what stands behind a frame -------------------------------------------------------------------------------


def test_a_far_answer_that_is_worse_than_near_is_asked_for_only_where_near_has_no_time():
    idle = world(ladder=(rung(0.45),), near_accuracy=0.5)
    idle.run_frames(50, every_us=FPS_25)
    assert len(idle.offloaded) <= 10, "only what is sent to learn"
    busy = world(ladder=(rung(0.45),), near_accuracy=0.5)
    busy.near_us = lambda _: 90 * MS
    for _ in range(20):
        busy.scheduler.near.estimate.observe(90 * MS)
    busy.run_frames(50, every_us=FPS_25)
    assert busy.share(AnsweredBy.FAR, first_seq=10) >= 0.4
    assert busy.late() == []


def test_a_frame_only_the_smaller_input_could_answer_is_worth_more_to_send():
    sent = {}
    for small_accuracy in (0.2, 0.44):
        w = world(
            ladder=(rung(0.45),),
            near_accuracy=0.5,
            small_near=SmallNear(accuracy=small_accuracy, prior_us=8 * MS),
            byte_price=0.001,
        )
        w.near_us = lambda _: 150 * MS
        for _ in range(20):
            w.scheduler.near.estimate.observe(150 * MS)
        w.run_frames(50, every_us=2 * FPS_25)
        sent[small_accuracy] = len(w.offloaded)
    assert sent[0.2] >= 45
    assert sent[0.44] <= 25


def answered(policy: str) -> float:
    """How many frames of two cameras are answered by a near that has time for five in six of them, beside a link that
    is too thin for any."""
    w = world(policy=policy)
    w.near_us = lambda _: 40 * MS
    w.wire.bytes_per_us = 0.2
    for seq in range(1, 600):
        w.frame(seq)
        w.run_until(w.now_us + 33 * MS)
        w.frame(seq, "t")
        w.run_until(w.now_us + 33 * MS)
    w.run_until(w.now_us + 500 * MS)
    assert w.late() == []
    return len(w.released) / 1198


def test_what_is_sent_to_learn_about_a_link_costs_no_other_frame_its_answer_where_near_is_short():
    assert answered("deadline") >= answered("near_only") - 0.002
