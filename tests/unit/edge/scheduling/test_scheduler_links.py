"""Several links and rungs: the best way by value, none of them trusted, each paid for."""

from typing import Any

from edge.scheduling import actions
from pipelines.result import AnsweredBy, Load, Priority
from tests.support.virtual import LADDER, MS, World, links, world

FPS_25 = 40 * MS


def two_links(*, lte_rtt_us: int, **changes: Any) -> World:
    """A cable of 20 ms, and a slower link beside it."""
    w = world(connect=False, links=links("cable", "lte"), **changes)
    w.wires["lte"].rtt_us = lambda _: lte_rtt_us
    w.connect()
    w.run_until(w.now_us + 300 * MS)
    return w


def test_a_fast_link_carries_the_best_rung_and_a_thin_one_a_lower_rung_that_fits():
    fast = world(ladder=LADDER)
    fast.run_frames(50, every_us=FPS_25)
    assert {fast.rungs[k] for k in list(fast.rungs)[10:]} == {0}
    thin = world(ladder=LADDER)
    thin.wire.bytes_per_us = 0.25  # 2 Mbit/s: 20 kB take 80 ms, 2.8 kB take 11
    thin.run_frames(100, every_us=FPS_25)
    late = [thin.rungs[k] for k in list(thin.rungs)[-40:]]
    assert 0 not in late
    assert thin.share(AnsweredBy.FAR, first_seq=60) >= 0.9
    assert thin.late() == []


def test_a_link_that_becomes_fast_again_gets_the_best_rung_back():
    w = world(ladder=LADDER)
    w.wire.bytes_per_us = 0.25
    w.run_frames(100, every_us=FPS_25)
    w.wire.bytes_per_us = 12.5
    w.run_frames(100, every_us=FPS_25, first_seq=101)
    assert {w.rungs[k] for k in list(w.rungs)[-25:]} == {0}


def test_probes_and_samples_are_made_of_the_lowest_rung():
    w = world(ladder=LADDER)
    w.run_frames(25, every_us=FPS_25)
    w.way.breaker.frames_vanish(w.now_us)
    w.run_frames(10, every_us=FPS_25, first_seq=26)
    probes = [w.rungs[key] for _, key, probe in w.offloaded if probe]
    assert probes
    assert set(probes) == {3}


def test_bytes_under_way_stay_within_what_the_link_carries_in_time():
    w = world(ladder=LADDER, min_p=0.0)
    w.wire.bytes_per_us = 0.5
    most_us = 0
    for seq in range(1, 200):
        w.frame(seq)
        w.frame(seq, "t")
        w.run_until(w.now_us + 20 * MS)
        most_us = max(most_us, w.wire.free_us - w.now_us)
    assert most_us <= 80 * MS


def test_of_two_links_the_better_answers_and_the_other_is_there_when_it_fails():
    w = two_links(lte_rtt_us=45 * MS)
    w.run_frames(50, every_us=FPS_25)
    assert {link for _, key, link in w.sent_over if key[1] > 5} == {"cable"}
    w.wires["cable"].rtt_us = lambda _: None
    cut_us = w.now_us
    w.run_frames(100, every_us=FPS_25, first_seq=51)
    assert w.late() == []
    assert w.share(AnsweredBy.FAR, first_seq=75) >= 0.95
    assert {link for at, _, link in w.sent_over if at > cut_us + 1_000 * MS} == {"lte"}


def test_what_a_lost_link_carried_is_started_near_at_once():
    w = two_links(lte_rtt_us=45 * MS)
    w.run_frames(10, every_us=FPS_25)
    w.frame(11)
    w.run_until(w.now_us + 10 * MS)
    assert w.sent_over[-1][1:] == (("s", 11), "cable")
    cut_us = w.now_us
    decided = w.scheduler.disconnected("cable", "reset", w.now_us)
    assert [a.key for a in decided if isinstance(a, actions.StartNear)] == [("s", 11)]
    w.do(decided)
    w.run_until(w.now_us + 200 * MS)
    at_us, by = w.released["s", 11]
    assert by is AnsweredBy.NEAR
    assert at_us - cut_us <= 25 * MS


def test_without_near_what_a_lost_link_carried_goes_over_another():
    w = two_links(lte_rtt_us=30 * MS, near_accuracy=None)
    w.run_frames(10, every_us=FPS_25)
    w.wires["cable"].rtt_us = lambda _: None
    w.frame(11)
    w.run_until(w.now_us + 10 * MS)
    w.do(w.scheduler.disconnected("cable", "reset", w.now_us))
    w.run_until(w.now_us + 200 * MS)
    assert w.given["s", 11].by is AnsweredBy.FAR
    assert w.given["s", 11].link == "lte"
    assert w.late() == []


def test_of_equally_good_links_the_one_with_the_busy_worker_is_left_alone():
    w = world(links=links("a", "b", "c"))
    w.run_frames(50, every_us=FPS_25)
    most_used = w.sent_over[-1][2]
    w.wires[most_used].worker_us = lambda _: 60 * MS
    w.run_frames(50, every_us=FPS_25, first_seq=51)
    last = [link for _, key, link in w.sent_over if key[1] > 60]
    assert last.count(most_used) <= len(last) / 5
    assert w.share(AnsweredBy.FAR, first_seq=51) >= 0.95


def test_far_only_keeps_away_from_a_link_that_is_over_budget_while_another_is_not():
    w = two_links(lte_rtt_us=45 * MS, policy="far_only", near_accuracy=None)
    w.run_frames(20, every_us=FPS_25)
    w.wires["cable"].rtt_us = lambda _: None
    w.run_frames(100, every_us=FPS_25, first_seq=21)
    assert w.share(AnsweredBy.FAR, first_seq=40) == 1.0
    w.wires["lte"].rtt_us = lambda _: None
    w.run_until(w.now_us + 1_000 * MS)
    sent = len(w.sent_over)
    w.run_frames(5, every_us=FPS_25, first_seq=121)
    assert len(w.sent_over) > sent, "with both over budget it asks for far all the same"


def test_a_link_over_budget_comes_back_while_another_carries_the_frames():
    w = two_links(lte_rtt_us=45 * MS)

    def cable_in_budget() -> bool:
        return w.scheduler.ways["cable"].breaker.in_budget

    w.wires["cable"].rtt_us = lambda _: None
    w.run_frames(50, every_us=FPS_25)
    assert not cable_in_budget()
    w.wires["cable"].rtt_us = lambda _: 10 * MS
    w.connect("cable", connection=2)
    w.run_frames(150, every_us=FPS_25, first_seq=51)
    assert cable_in_budget()
    assert w.sent_over[-1][2] == "cable"


# -- duplicates -----------------------------------------------------------------------------------------------


def _twins(w):
    return len(w.sent_over) - len({key for _, key, _ in w.sent_over})


def test_chosen_priorities_go_over_two_links_and_the_first_result_wins():
    w = world(links=links("a", "b"), duplicate=frozenset({Priority.NORMAL}), duplicate_share=1.0)
    w.run_frames(10, every_us=FPS_25)
    w.wires["a"].rtt_us = lambda _: 80 * MS
    w.run_frames(20, every_us=FPS_25, first_seq=11)
    assert _twins(w) >= 20
    assert w.share(AnsweredBy.FAR) >= 0.95
    assert set(w.late_far) <= {k for k, (_, by) in w.released.items() if by is not AnsweredBy.FAR}
    assert w.late() == []


def test_duplicates_are_no_more_than_their_share_of_the_bytes():
    w = world(links=links("a", "b"), duplicate=frozenset({Priority.NORMAL}), duplicate_share=0.1)
    w.run_frames(300, every_us=FPS_25)
    assert 1 <= _twins(w) <= 0.1 * 300 + 10


def test_other_priorities_are_not_sent_twice():
    w = world(links=links("a", "b"), duplicate=frozenset({Priority.HIGH}), duplicate_share=1.0)
    w.run_frames(50, every_us=FPS_25)
    assert _twins(w) == 0


# -- what goes wrong ------------------------------------------------------------------------------------------


def test_frames_that_vanish_while_pings_pass_end_offloading_with_a_reason_and_a_fresh_connection():
    # F29: an MTU blackhole.
    w = world()
    w.run_frames(25, every_us=FPS_25)
    w.wire.frames_pass = False
    w.run_frames(75, every_us=FPS_25, first_seq=26)
    assert w.late() == []
    assert w.share(AnsweredBy.NEAR, first_seq=26) == 1.0
    assert w.way.breaker.reason == "pings pass but frames vanish"
    assert set(w.fresh_reasons) == {"pings pass but frames vanish"}
    live = [key for _, key, probe in w.offloaded if key[1] > 26 and not probe]
    assert len(live) <= 15


def test_connections_that_fall_silent_with_their_first_frame_are_called_by_the_same_name():
    # F29 as TCP shows it: pings behind a lost large packet wait as well.
    w = world()
    w.rtt_us = lambda _: None
    w.run_frames(20, every_us=FPS_25)
    for connection in (2, 3, 4):
        w.rtt_us = lambda _: 20 * MS
        w.connect(connection=connection)
        w.wire.frames_pass = False
        seqs = iter(range(100 * connection, 100 * connection + 99))
        sent = len(w.offloaded)
        while len(w.offloaded) == sent:
            w.frame(next(seqs))
            w.run_until(w.now_us + FPS_25)
        w.rtt_us = lambda _: None
        w.run_until(w.now_us + 2_000 * MS)
    assert w.way.breaker.reason == "pings pass but frames vanish"
    assert w.late() == []


def test_a_head_that_expires_for_want_of_its_body_does_not_speak_for_the_link():
    # F29 over gRPC: the head is a small packet of its own, crosses, and the worker says that it expired.
    w = world()
    w.run_frames(20, every_us=FPS_25)
    w.wire.frames_pass = False
    for connection in (2, 3, 4):
        w.rtt_us = lambda _: 20 * MS
        w.connect(connection=connection)
        seqs = iter(range(100 * connection, 100 * connection + 99))
        sent = len(w.offloaded)
        while len(w.offloaded) == sent:
            w.frame(next(seqs))
            w.run_until(w.now_us + FPS_25)
        _, key, _ = w.offloaded[-1]
        w.do(w.scheduler.rejected(key, link=w.way.name, reason="expired", load=Load(), now_us=w.now_us))
        w.rtt_us = lambda _: None
        w.run_until(w.now_us + 2_000 * MS)
    assert w.way.breaker.reason == "pings pass but frames vanish"


def test_a_blackhole_is_not_called_an_mtu_blackhole():
    w = world()
    w.run_frames(25, every_us=FPS_25)
    w.rtt_us = lambda _: None
    w.run_frames(50, every_us=FPS_25, first_seq=26)
    assert w.way.breaker.reason == "link silent"


def test_after_an_mtu_blackhole_far_is_back():
    w = world()
    w.wire.frames_pass = False
    w.run_frames(75, every_us=FPS_25)
    w.wire.frames_pass = True
    w.connect(connection=2)
    w.run_frames(100, every_us=FPS_25, first_seq=76)
    assert w.share(AnsweredBy.FAR, first_seq=150) >= 0.95


def test_a_rebound_nat_is_noticed_within_a_second_and_asks_for_a_fresh_connection():
    # F30: the old mapping is gone, everything sent on it is lost.
    w = world()
    w.run_frames(25, every_us=FPS_25)
    at_us = w.now_us
    w.rtt_us = lambda _: None
    while not w.fresh_reasons:
        w.run_until(w.now_us + 10 * MS)
        assert w.now_us - at_us < 1_000 * MS
    w.rtt_us = lambda _: 20 * MS
    w.connect(connection=2)
    w.run_frames(20, every_us=FPS_25, first_seq=26)
    assert w.share(AnsweredBy.FAR, first_seq=40) == 1.0


def test_a_blackhole_of_a_minute_asks_for_a_fresh_connection_every_half_second():
    w = world()
    w.rtt_us = lambda _: None
    w.run_until(w.now_us + 60_000 * MS)
    assert 100 <= w.fresh <= 125
