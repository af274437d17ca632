"""The running sums of a link's bytes under way."""

from hypothesis import given
from hypothesis import strategies as st

from edge.scheduling.in_flight import InFlight
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
        until_us = now_us - 3_000
        assert under_way.sent_bytes(until_us) == sum(
            f.size_bytes for f in ahead if (f.sent_us or 0) <= until_us
        )


def test_a_frame_out_for_longer_than_it_should_stalls_the_link_until_something_sent_after_it_was_answered() -> (
    None
):
    under_way = InFlight()
    slow, quick = (Flight(link="link", size_bytes=1_000, expected_us=10_000) for _ in range(2))
    for flight, sent_us in ((slow, 0), (quick, 5_000)):
        under_way.add(flight)
        under_way.sent(flight, size_bytes=1_000, now_us=1_000_000 + sent_us)
    assert not under_way.stalls(1_020_000, times=2.0)
    assert under_way.stalls(1_020_001, times=2.0)
    under_way.crossed(1_005_000)
    assert not under_way.stalls(1_020_001, times=2.0)
