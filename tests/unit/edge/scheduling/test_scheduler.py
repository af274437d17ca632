"""The scheduler's promises in virtual time."""

import pytest

from edge.scheduling import actions
from pipelines.result import AnsweredBy
from protos.wire.session import Credit
from tests.support.virtual import LINK, MS, world

FPS_25 = 40 * MS


def test_on_a_healthy_link_every_frame_is_answered_far_by_its_deadline():
    w = world()
    w.run_frames(100, every_us=FPS_25)
    assert w.share(AnsweredBy.FAR) >= 0.98
    assert len(w.released) == 100
    assert w.late() == []


def test_without_a_link_every_frame_is_answered_near_by_its_deadline():
    w = world(connect=False)
    w.run_frames(50, every_us=FPS_25)
    assert w.share(AnsweredBy.NEAR) == 1.0
    assert w.late() == []
    assert w.sent_bytes == 0


def test_a_blackhole_costs_no_deadline_from_its_first_frame_on():
    w = world()
    w.run_frames(25, every_us=FPS_25)
    w.rtt_us = lambda _: None
    w.run_frames(75, every_us=FPS_25, first_seq=26)
    assert w.late() == []
    assert w.share(AnsweredBy.NEAR, first_seq=27) == 1.0
    assert not w.way.breaker.in_budget
    assert w.fresh >= 2


def test_a_blackhole_stops_offloading_within_half_a_second():
    w = world()
    w.run_frames(25, every_us=FPS_25)
    start_us = w.now_us
    w.rtt_us = lambda _: None
    w.run_frames(75, every_us=FPS_25, first_seq=26)
    assert max(at for at, _, _ in w.offloaded) - start_us < 600 * MS


def test_far_answers_come_back_within_a_second_of_the_heal():
    w = world()
    w.run_frames(25, every_us=FPS_25)
    w.rtt_us = lambda _: None
    w.run_frames(50, every_us=FPS_25, first_seq=26)
    w.rtt_us = lambda _: 20 * MS
    healed_us = w.now_us
    w.connect()
    w.run_frames(50, every_us=FPS_25, first_seq=76)
    first_far_us = min(at for at, by in w.released.values() if by is AnsweredBy.FAR and at > healed_us)
    assert first_far_us - healed_us < 500 * MS
    assert w.share(AnsweredBy.FAR, first_seq=101) >= 0.95


def test_a_round_trip_above_the_deadline_is_answered_near_and_far_is_back_with_the_first_quick_ping():
    w = world()
    w.run_frames(25, every_us=FPS_25)
    w.rtt_us = lambda _: 200 * MS
    w.run_frames(50, every_us=FPS_25, first_seq=26)
    assert w.share(AnsweredBy.NEAR, first_seq=26, last_seq=70) == 1.0
    w.rtt_us = lambda _: 20 * MS
    healed_us = w.now_us
    w.run_frames(50, every_us=FPS_25, first_seq=76)
    first_far_us = min(at for at, by in w.released.values() if by is AnsweredBy.FAR and at > healed_us)
    assert first_far_us - healed_us <= 320 * MS
    assert w.share(AnsweredBy.FAR, first_seq=100) >= 0.95
    assert w.late() == []


def test_over_budget_only_probes_are_sent_and_at_most_five_a_second():
    w = world()
    w.run_frames(25, every_us=FPS_25)
    w.rtt_us = lambda now: 80 * MS  # inside the band of 100 ms but above the return at 50 ms
    w.way.breaker.frames_vanish(w.now_us)
    before = len(w.offloaded)
    w.run_frames(50, every_us=FPS_25, first_seq=26)
    sent = w.offloaded[before:]
    assert sent
    assert all(probe for _, _, probe in sent)
    assert len(sent) <= 14


def test_a_far_result_after_a_near_answer_is_reported_late_and_changes_no_answer():
    w = world()
    w.run_frames(10, every_us=FPS_25)
    w.worker_us = lambda _: 150 * MS
    w.run_frames(1, every_us=FPS_25, first_seq=11)
    w.run_until(w.now_us + 1000 * MS)
    assert w.released["s", 11][1] is AnsweredBy.NEAR
    assert ("s", 11) in w.late_far


def test_a_rejected_frame_is_answered_near_at_once():
    w = world()
    w.run_frames(10, every_us=FPS_25)
    w.rtt_us = lambda _: None
    w.frame(11)
    w.run_until(w.now_us + 5 * MS)
    asked_us = w.now_us
    decided = w.scheduler.rejected(
        ("s", 11), link=LINK, reason="queue_full", load=w.way.link.load, now_us=w.now_us
    )
    assert any(isinstance(a, actions.StartNear) and a.key == ("s", 11) for a in decided)
    w.do(decided)
    w.run_until(w.now_us + 500 * MS)
    at_us, by = w.released["s", 11]
    assert by is AnsweredBy.NEAR
    assert at_us - asked_us < 25 * MS


def test_a_lost_connection_hands_every_frame_in_flight_to_near_at_once():
    w = world()
    w.run_frames(10, every_us=FPS_25)
    w.rtt_us = lambda _: None
    w.frame(11)
    w.run_until(w.now_us + 10 * MS)
    w.do(w.scheduler.disconnected(LINK, "reset", w.now_us))
    w.run_until(w.now_us + 25 * MS)
    assert w.released["s", 11][1] is AnsweredBy.NEAR


def test_when_near_is_too_slow_for_every_frame_the_newest_wins_and_every_loss_is_counted():
    w = world(connect=False)
    w.near_us = lambda _: 60 * MS
    w.scheduler.near.estimate.observe(60 * MS)
    w.run_frames(100, every_us=FPS_25)
    assert len(w.released) + len(w.shed) + len(w.waiting) == 100
    assert w.share(AnsweredBy.NEAR) >= 0.95
    assert w.late() == []
    assert 25 <= len(w.shed) <= 50


def test_an_answer_whose_commit_does_not_come_is_released_by_its_deadline():
    w = world(connect=False)
    w.commit_us = None
    w.run_frames(20, every_us=FPS_25)
    assert len(w.released) == 20
    assert w.late() == []


@pytest.mark.parametrize("policy", ["near_only", "far_only", "threshold", "deadline"])
def test_every_policy_answers_every_accepted_frame_exactly_once(policy: str):
    w = world(policy=policy)
    w.rtt_us = lambda now: 20 * MS if now // 1_000_000 % 2 else 180 * MS
    w.run_frames(200, every_us=FPS_25)
    assert len(w.released) + len(w.shed) == 200
    if policy == "near_only":
        assert w.sent_bytes == 0
    if policy == "far_only":
        assert w.share(AnsweredBy.NEAR) == 0.0
        assert w.share(AnsweredBy.MISSED) > 0.2


def test_a_frame_that_nobody_can_answer_is_an_honest_miss():
    w = world(policy="far_only", connect=False)
    w.frame(1)
    w.run_until(w.now_us + 300 * MS)
    w.take("s")
    w.run_until(w.now_us + 300 * MS)
    assert w.released["s", 1][1] is AnsweredBy.MISSED


def test_the_hedge_costs_no_near_run_while_far_is_quick():
    w = world()
    runs: list[int] = []

    def near_us(now: int) -> int:
        runs.append(now)
        return 20 * MS

    w.near_us = near_us
    w.run_frames(100, every_us=FPS_25)
    assert len(runs) <= 3


def test_a_probe_that_is_left_behind_by_a_new_connection_does_not_end_probing():
    w = world()
    w.run_frames(25, every_us=FPS_25)
    w.way.breaker.frames_vanish(w.now_us)
    w.run_until(w.now_us + 300 * MS)
    w.commit_us = 5 * MS
    w.worker_us = lambda _: 300 * MS  # the probe stays out for long
    w.frame(26)
    probe = ("s", 26)
    while probe not in w.given:
        w.run_until(w.now_us + MS // 2)
    assert w.given[probe].by is AnsweredBy.NEAR
    assert [(key, is_probe) for _, key, is_probe in w.offloaded[-1:]] == [(probe, True)]
    w.do(w.scheduler.welcomed(LINK, 2, Credit(frames=8, bytes=4 << 20), w.now_us))
    w.run_until(w.now_us + 200 * MS)
    w.worker_us = lambda _: 20 * MS
    w.run_frames(60, every_us=FPS_25, first_seq=27)
    assert w.share(AnsweredBy.FAR, first_seq=60) >= 0.95


def test_a_frame_nobody_could_ever_answer_is_missed_at_once_and_not_left_to_be_shed():
    w = world(policy="far_only", connect=False)
    w.run_frames(50, every_us=FPS_25)
    assert w.shed == []
    assert w.share(AnsweredBy.MISSED) == 1.0
    assert w.late() == []


def test_near_recovers_from_one_hiccup_without_any_link():
    w = world(connect=False, near_prior_us=60 * MS)
    w.near_us = lambda _: 60 * MS
    w.run_frames(10, every_us=80 * MS)
    w.near_us = lambda _: 250 * MS
    w.run_frames(1, every_us=80 * MS, first_seq=11)
    for _ in range(3):
        w.scheduler.near.estimate.observe(250 * MS)  # what a stopped machine leaves behind
    w.near_us = lambda _: 60 * MS
    w.run_frames(40, every_us=80 * MS, first_seq=12)
    assert w.share(AnsweredBy.NEAR, first_seq=15) == 1.0
    assert [key for key in w.shed if key[1] >= 15] == []


def test_a_near_that_cannot_make_the_deadline_is_tried_again_and_again():
    w = world(connect=False, near_prior_us=120 * MS)
    w.near_us = lambda _: 120 * MS
    w.run_frames(20, every_us=120 * MS)
    assert w.share(AnsweredBy.MISSED) == 1.0
    w.near_us = lambda _: 20 * MS
    w.run_frames(20, every_us=120 * MS, first_seq=21)
    assert w.share(AnsweredBy.NEAR, first_seq=22) == 1.0
