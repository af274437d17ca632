"""Payloads pause when they cost far answers, and results never do."""

from edge.outbox.sending.pacing import AT_LEAST_EVERY_US, SMALL_BYTES
from edge.outbox.sending.pause import PAUSE_US, WINDOW_US, PauseRule
from tests.support.outboxes import SECOND
from tests.unit.edge.outbox.test_outbox_pacing import START, observe, reachable


def run(
    rule: PauseRule, now_us: int, *, seconds: float, share: float, sending: bool, counts: list[int]
) -> int:
    """15 frames a second sent far, `share` of them answered."""
    for _ in range(int(seconds * 15)):
        now_us += SECOND // 15
        counts[0] += 1
        counts[1] += int(counts[0] * share) - int((counts[0] - 1) * share)
        if sending and now_us >= rule.until_us:
            rule.sent(now_us)
        rule.observe(offloaded=counts[0], far=counts[1], now_us=now_us)
    return now_us


def test_payloads_pause_when_they_cost_far_answers_and_go_on_later() -> None:
    rule, counts = PauseRule(), [0, 0]
    now_us = run(rule, 0, seconds=10, share=0.9, sending=False, counts=counts)
    now_us = run(rule, now_us, seconds=2.5, share=0.5, sending=True, counts=counts)
    assert now_us < rule.until_us <= now_us + WINDOW_US + PAUSE_US


def test_a_link_that_is_poor_without_payloads_does_not_pause_them() -> None:
    rule, counts = PauseRule(), [0, 0]
    now_us = run(rule, 0, seconds=10, share=0.4, sending=False, counts=counts)
    run(rule, now_us, seconds=20, share=0.4, sending=True, counts=counts)
    assert rule.until_us == 0


def test_each_further_fall_pauses_longer() -> None:
    rule, counts = PauseRule(), [0, 0]
    now_us = run(rule, 0, seconds=10, share=0.9, sending=False, counts=counts)
    pauses: list[int] = []
    for _ in range(4):
        before = rule.until_us
        while rule.until_us == before:
            now_us = run(rule, now_us, seconds=0.2, share=0.5, sending=True, counts=counts)
        pauses.append(rule.until_us - now_us)
        now_us = run(
            rule,
            now_us,
            seconds=(rule.until_us - now_us) / SECOND + 0.1,
            share=0.9,
            sending=False,
            counts=counts,
        )
    assert pauses == sorted(pauses)
    assert pauses[-1] > 3 * pauses[0]


def test_payloads_that_cost_far_answers_slow_the_lane_down() -> None:
    pacing, counts = reachable(), [0, 0]
    now_us, before = START, pacing.allowance_bytes(START)
    while now_us >= pacing.pause.until_us:
        now_us += SECOND // 15
        counts[0] += 1
        counts[1] += counts[0] % 2
        observe(pacing, now_us)
        before = pacing.allowance_bytes(now_us)
        pacing.pause.sent(now_us)
        pacing.observe_far(offloaded=counts[0], far=counts[1], now_us=now_us)
    assert SMALL_BYTES < pacing.allowance_bytes(now_us) < before


def test_a_pause_holds_payloads_back_and_not_results() -> None:
    pacing, counts = reachable(), [0, 0]
    now_us = run(pacing.pause, START, seconds=10, share=0.9, sending=False, counts=counts)
    while pacing.pause.until_us <= now_us + AT_LEAST_EVERY_US:  # each further fall pauses longer
        now_us = run(pacing.pause, now_us, seconds=0.2, share=0.5, sending=True, counts=counts)
    pacing.sent(1, now_us)
    observe(pacing, now_us)
    assert pacing.allowance_bytes(now_us) > 0
    assert pacing.payload_allowance_bytes(now_us) == 0
    assert pacing.payload_due_us(now_us) == now_us + AT_LEAST_EVERY_US
    later_us = now_us + AT_LEAST_EVERY_US
    observe(pacing, later_us)
    assert pacing.payload_allowance_bytes(later_us) == SMALL_BYTES
