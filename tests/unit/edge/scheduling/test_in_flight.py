"""The running sums of a link's bytes under way."""

from hypothesis import given
from hypothesis import strategies as st

from edge.scheduling.far.in_flight import InFlight
from edge.scheduling.job import Flight

STEPS = st.lists(
    st.tuples(st.sampled_from(("add", "send", "drop", "cross")), st.integers(0, 20), st.integers(1, 9_000)),
    max_size=60,
)


@given(STEPS)
def test_the_sums_are_those_of_the_flights_there_are_whatever_happened(
    steps: list[tuple[str, int, int]],
) -> None:
    under_way = InFlight()
    flights: list[Flight] = []
    crossed_us = now_us = 0
    for what, pick, size_bytes in steps:
        now_us += 1_000
        unsent = [f for f in flights if f.sent_us is None]
        if what == "add":
            flights.append(Flight(link="link", size_bytes=size_bytes))
            under_way.add(flights[-1])
        elif what == "send" and unsent:
            under_way.sent(unsent[pick % len(unsent)], size_bytes=size_bytes, now_us=now_us)
        elif what == "drop" and flights:
            under_way.drop(flights.pop(pick % len(flights)))
        elif what == "cross":
            crossed_us = max(crossed_us, now_us - 1_000 * pick)
            under_way.crossed(now_us - 1_000 * pick)
        ahead = [f for f in flights if f.sent_us is not None and f.sent_us > crossed_us]
        assert under_way.size_bytes == sum(f.size_bytes for f in flights)
        assert under_way.waiting == sum(f.sent_us is None for f in flights)
        assert under_way.waiting_bytes == sum(f.size_bytes for f in flights if f.sent_us is None)
        assert under_way.ahead_bytes == sum(f.size_bytes for f in ahead)
        unanswered = under_way.unanswered(0)
        assert [out.sent_us for out in unanswered] == sorted(f.sent_us or 0 for f in ahead)
        assert sum(out.size_bytes for out in unanswered) == under_way.ahead_bytes
        until_us = now_us - 3_000
        assert under_way.sent_bytes(until_us) == sum(
            f.size_bytes for f in ahead if (f.sent_us or 0) <= until_us
        )


def test_what_is_unanswered_is_of_this_connection_oldest_first_until_something_sent_later_was_answered() -> (
    None
):
    under_way = InFlight()
    flights = [Flight(link="link", size_bytes=1_000, connection=at // 3) for at in range(4)]
    for flight in flights:
        under_way.add(flight)
    for at in (1, 0, 2, 3):
        under_way.sent(flights[at], size_bytes=1_000 + at, now_us=1_000_000 + at)
    assert [out.size_bytes for out in under_way.unanswered(0)] == [1_001, 1_000, 1_002]
    assert [out.size_bytes for out in under_way.unanswered(1)] == [1_003]
    under_way.crossed(1_000_001)
    assert [out.size_bytes for out in under_way.unanswered(0)] == [1_002]
    under_way.drop(flights[2])
    assert not under_way.unanswered(0)
