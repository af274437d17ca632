"""How often a receiver must go away at one answer before it is put down to the answer, and how long that may take."""

from edge.backoff import Backoff
from edge.sinks.delivery.postman import FIRST_WAIT_US, MOST_WAIT_US
from edge.sinks.delivery.suspicion import FIRST, IN_A_ROW, NEXT, WAIT_US, Suspicion


def attempts_until(made: Suspicion, number: int) -> int:
    attempts = 1
    while not made.falls_on(number):
        attempts += 1
    return attempts


def waited_us(made: Suspicion, backoff: Backoff, numbers: range) -> int:
    """As the postman waits between its attempts, until all of `numbers` are given up."""
    total_us = 0
    for number in numbers:
        while not made.falls_on(number):
            at_most_us = made.wait_at_most_us
            total_us += backoff.next_us() if at_most_us is None else backoff.within_us(at_most_us)
    return total_us


def backoff() -> Backoff:
    return Backoff(first_us=FIRST_WAIT_US, most_us=MOST_WAIT_US)


def test_one_answer_is_given_up_after_the_first_attempts() -> None:
    assert attempts_until(Suspicion(), 1) == FIRST


def test_each_further_one_in_a_row_takes_the_same_number_of_attempts() -> None:
    made = Suspicion()
    assert [attempts_until(made, n) for n in range(1, 51)] == [FIRST, *[NEXT] * 49]


def test_fifty_bad_answers_in_a_row_wait_less_than_ten_minutes_whatever_was_before() -> None:
    tired = backoff()
    while tired.next_us() < MOST_WAIT_US:
        pass
    assert 0 < waited_us(Suspicion(), tired, range(1, 51)) < 600_000_000


def test_a_receiver_that_takes_nothing_at_all_costs_few_answers_a_day() -> None:
    made, waits = Suspicion(), backoff()
    waited_us(made, waits, range(1, IN_A_ROW + 1))
    a_day_later_us = waited_us(made, waits, range(IN_A_ROW + 1, IN_A_ROW + 201))
    assert a_day_later_us > 86_400_000_000


def test_a_delivery_makes_the_waits_short_again() -> None:
    made, waits = Suspicion(), backoff()
    waited_us(made, waits, range(1, IN_A_ROW + 1))
    assert made.wait_at_most_us is None
    made.clear()
    assert made.wait_at_most_us == WAIT_US


def test_attempts_at_another_answer_begin_anew() -> None:
    made = Suspicion()
    assert not any(made.falls_on(1) for _ in range(FIRST - 1))
    assert not any(made.falls_on(2) for _ in range(FIRST - 1))
    assert made.falls_on(2)


def test_what_the_receiver_takes_clears_it() -> None:
    made = Suspicion()
    attempts_until(made, 1)
    made.falls_on(2)
    made.clear()
    assert made.attempts == 0
    assert attempts_until(made, 2) == FIRST
