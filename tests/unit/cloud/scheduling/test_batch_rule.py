"""When a batch starts, what runs cost by their size, and when the next one would start."""

from cloud.scheduling.batch_rule import BatchRule
from cloud.scheduling.cost_curve import CostCurve
from cloud.scheduling.queue_forecast import residual_us, start_delay_us

MS = 1000


def curve(**costs_ms: int) -> CostCurve:
    made = CostCurve(8)
    for size, ms in costs_ms.items():
        made.observe(int(size[1:]), ms * MS)
    return made


def start_ms(rule: BatchRule, waiting: int, *, urgent_ms: int = 1000, decode_ms: int = 0) -> float:
    costs = curve(n1=10, n8=24)
    start_us = rule.start_us(
        waiting=waiting, since_us=100 * MS, urgent_us=urgent_ms * MS, decode_us=decode_ms * MS, curve=costs
    )
    return start_us / MS


def test_a_full_batch_starts_at_once_and_one_that_is_not_waits_its_time() -> None:
    rule = BatchRule(max=8, wait_us=5 * MS)
    assert start_ms(rule, 8) == 100
    assert start_ms(rule, 9) == 100
    assert start_ms(rule, 1) == start_ms(rule, 7) == 105


def test_without_a_time_to_wait_a_batch_is_what_is_there() -> None:
    assert start_ms(BatchRule(max=8), 3) == 100
    assert start_ms(BatchRule(), 1) == 100


def test_a_batch_starts_while_its_most_urgent_frame_can_still_be_in_time_with_one_more_in_it() -> None:
    rule = BatchRule(max=8, wait_us=50 * MS)
    assert start_ms(rule, 7, urgent_ms=140) == 140 - 24 * 1.1
    assert start_ms(rule, 7, urgent_ms=140, decode_ms=3) == 137 - 24 * 1.1
    assert start_ms(rule, 1, urgent_ms=140) == 140 - 12 * 1.1
    assert start_ms(rule, 1, urgent_ms=50) < 100, "already late: now"


def test_sizes_that_were_never_run_are_reckoned_from_those_that_were() -> None:
    costs = curve(n2=12, n6=20)
    assert [costs.run_us(n) / MS for n in (1, 2, 4, 6)] == [12, 12, 16, 20]
    assert costs.run_us(8) == 20 * MS * 8 // 6
    assert CostCurve(4).run_us(3) == 0, "nothing is known before the first run"
    assert [size for size, _, _ in costs.measured()] == [2, 6]


def test_a_stall_of_the_machine_is_not_expected_again() -> None:
    costs = curve(n1=10)
    for _ in range(20):
        costs.observe(1, 10 * MS)
    costs.observe(1, 90_000 * MS)
    assert costs.run_us(1) <= 20 * MS


def test_a_run_is_expected_to_end_when_such_runs_do_and_one_long_overdue_to_go_on() -> None:
    def left_ms(elapsed_ms: int) -> float:
        return residual_us(expected_us=10 * MS, late_us=12 * MS, elapsed_us=elapsed_ms * MS) / MS

    assert [left_ms(t) for t in (0, 4, 10, 20)] == [10, 6, 0, 0]
    assert left_ms(90_000) == 90_000 - 24


def test_runs_start_one_after_the_other_on_the_instance_that_is_free_first() -> None:
    def delays(free_ms: list[int]) -> list[int]:
        return [start_delay_us(free_ms, runs=n, run_us=10) for n in range(6)]

    assert delays([3]) == [3, 13, 23, 33, 43, 53]
    assert delays([7, 0, 3]) == [0, 3, 7, 10, 13, 17]
    assert delays([0, 5000]) == [0, 10, 20, 30, 40, 50], "a hung instance carries nothing"
