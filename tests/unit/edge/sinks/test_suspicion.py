"""How often a receiver must go away at one answer before it is put down to the answer."""

from edge.sinks.suspicion import FIRST, Suspicion


def attempts_until(made: Suspicion, number: int) -> int:
    attempts = 1
    while not made.falls_on(number):
        attempts += 1
    return attempts


def test_one_answer_is_given_up_after_the_first_attempts() -> None:
    assert attempts_until(Suspicion(), 1) == FIRST


def test_a_receiver_that_takes_nothing_costs_ever_fewer_answers() -> None:
    made = Suspicion()
    assert [attempts_until(made, n) for n in range(1, 5)] == [FIRST, 2 * FIRST, 4 * FIRST, 8 * FIRST]


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
