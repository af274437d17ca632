"""Credits: an agent's window in frames and bytes."""

from cloud.scheduling.credits import Credits, Loan


def taken(window: Credits, agent: str, size_bytes: int) -> Loan:
    loan = window.take(agent, size_bytes)
    assert loan is not None
    return loan


def test_a_window_of_frames_is_full_until_one_is_given_back() -> None:
    window = Credits(frames=2, size_bytes=100)
    first = taken(window, "a", 1)
    taken(window, "a", 1)
    assert window.take("a", 1) is None
    window.give_back(first)
    assert window.take("a", 1) is not None


def test_bytes_in_flight_are_bounded_too() -> None:
    window = Credits(frames=8, size_bytes=100)
    taken(window, "a", 60)
    assert window.take("a", 41) is None
    assert window.take("a", 40) is not None


def test_one_agents_window_does_not_touch_anothers() -> None:
    window = Credits(frames=1, size_bytes=100)
    taken(window, "a", 1)
    assert window.take("b", 1) is not None


def test_a_new_hello_starts_a_fresh_window_and_older_loans_do_not_count() -> None:
    window = Credits(frames=1, size_bytes=100)
    old = taken(window, "a", 50)
    window.reset("a")
    taken(window, "a", 70)
    window.give_back(old)
    assert window.in_flight("a") == (1, 70)
    assert window.take("a", 1) is None
