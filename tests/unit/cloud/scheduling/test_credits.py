"""Credits: an agent's window in frames and bytes, and how it follows the load of the worker."""

from cloud.scheduling.credits import HONOURED_US, Credits, Loan
from cloud.scheduling.window_pool import STEP_US, WindowPool


def taken(window: Credits, agent: str, size_bytes: int) -> Loan:
    loan = window.take(agent, size_bytes, 0)
    assert loan is not None
    return loan


def test_a_window_of_frames_is_full_until_one_is_given_back() -> None:
    window = Credits(frames=2, size_bytes=100)
    first = taken(window, "a", 1)
    taken(window, "a", 1)
    assert window.take("a", 1, 0) is None
    window.give_back(first)
    assert window.take("a", 1, 0) is not None


def test_bytes_in_flight_are_bounded_too() -> None:
    window = Credits(frames=8, size_bytes=100)
    taken(window, "a", 60)
    assert window.take("a", 41, 0) is None
    assert window.take("a", 40, 0) is not None


def test_one_agents_window_does_not_touch_anothers() -> None:
    window = Credits(frames=1, size_bytes=100)
    taken(window, "a", 1)
    assert window.take("b", 1, 0) is not None


def test_a_new_hello_starts_a_fresh_window_and_older_loans_do_not_count() -> None:
    window = Credits(frames=1, size_bytes=100)
    old = taken(window, "a", 50)
    window.reset("a")
    taken(window, "a", 70)
    window.give_back(old)
    assert window.in_flight("a") == (1, 70)
    assert window.take("a", 1, 0) is None


LONG_US, SHORT_US = 60_000, 10_000


class Told:
    """What agents of one model are told while its queue is as long as said, a step of time at each word."""

    def __init__(self, *agents: str, service_us: int = 1_000) -> None:
        self.credits = Credits(frames=8, size_bytes=1 << 20, models=("m",))
        self.now_us = 0
        self._service_us = service_us
        for agent in agents:
            self.credits.reset(agent)

    def tell(self, agent: str, queue_us: int) -> int:
        self.now_us += STEP_US
        return self.credits.tell(
            agent, "m", queue_us=queue_us, service_us=self._service_us, now_us=self.now_us
        )


def test_a_long_queue_shrinks_the_window_in_a_tenth_of_a_second_and_never_below_one_frame() -> None:
    told = Told("a")
    assert told.tell("a", SHORT_US) == 8
    assert [told.tell("a", LONG_US) for _ in range(5)] == [6, 4, 3, 2, 1]
    assert {told.tell("a", 10 * LONG_US) for _ in range(100)} == {1}


def test_a_short_queue_gives_it_back_within_a_second_also_to_who_was_silent_meanwhile() -> None:
    told = Told("a")
    for _ in range(10):
        told.tell("a", LONG_US)
    grown = [told.tell("a", SHORT_US) for _ in range(10)]
    assert grown == sorted(grown)
    assert grown[-1] == 8
    for _ in range(10):
        told.tell("a", LONG_US)
    told.now_us += 1_000_000
    assert told.tell("a", 0) == 8


def test_between_long_and_short_the_window_stays() -> None:
    told = Told("a")
    small = [told.tell("a", LONG_US) for _ in range(3)][-1]
    assert {told.tell("a", 40_000) for _ in range(50)} == {small}


def test_words_within_one_step_shrink_the_window_once() -> None:
    pool = WindowPool(most=8, long_us=50_000)
    for now_us in (0, STEP_US, STEP_US + 1, STEP_US + 2):
        pool.observe(queue_us=LONG_US, service_us=1_000, agents=1, now_us=now_us)
    assert pool.window(1) == 6


def test_a_slow_model_may_have_two_runs_waiting_before_windows_shrink() -> None:
    told = Told("a", service_us=100_000)
    assert {told.tell("a", 200_000) for _ in range(20)} == {8}
    assert told.tell("a", 201_000) == 6


def test_what_one_model_does_leaves_the_windows_of_another() -> None:
    credits_ = Credits(frames=8, size_bytes=100, models=("slow", "quick"))
    credits_.reset("a")
    for step in range(20):
        now_us = step * STEP_US
        credits_.tell("a", "slow", queue_us=LONG_US, service_us=1_000, now_us=now_us)
    assert credits_.tell("a", "quick", queue_us=0, service_us=1_000, now_us=now_us) == 8
    assert credits_.window() == 1


def test_all_agents_share_alike_and_who_leaves_leaves_its_share() -> None:
    told = Told("a", "b", "c", "d")
    while told.tell("a", LONG_US) > 2:
        pass
    assert [told.tell(agent, 40_000) for agent in "abcd"] == [2, 2, 2, 2]
    for agent in "bcd":
        told.credits.close(agent)
    assert told.tell("a", 40_000) == 8
    assert told.tell("b", 0) == 0


def test_frames_sent_under_an_older_window_are_taken_however_long_ago_it_was_told() -> None:
    told = Told("a")
    told.tell("a", 0)
    told.now_us += 600_000_000
    while told.tell("a", LONG_US) > 1:
        pass
    loans = [told.credits.take("a", 1, told.now_us + 1_000_000) for _ in range(9)]
    assert [loan is not None for loan in loans] == [True] * 8 + [False]


def test_who_does_not_obey_is_refused_once_the_older_window_has_had_its_time() -> None:
    told = Told("greedy")
    for _ in range(10):
        told.tell("greedy", LONG_US)
    told.now_us += HONOURED_US
    assert told.tell("greedy", LONG_US) == 1
    taken_ = [told.credits.take("greedy", 1, told.now_us) for _ in range(3)]
    assert [loan is not None for loan in taken_] == [True, False, False]


def test_who_said_no_hello_is_told_nothing_and_has_the_whole_window() -> None:
    told = Told("a")
    while told.tell("a", LONG_US) > 1:
        pass
    assert told.tell("", LONG_US) == 0
    assert [told.credits.take("", 1, told.now_us) is not None for _ in range(9)] == [True] * 8 + [False]


def test_a_loan_of_before_all_was_forgotten_is_given_back_to_nobody() -> None:
    credits_ = Credits(frames=8, size_bytes=100)
    credits_.reset("a")
    old = taken(credits_, "a", 1)
    credits_.reset("a")
    credits_.close("a")
    credits_.reset("a")
    credits_.give_back(old)
    assert credits_.in_flight("a") == (0, 0)
