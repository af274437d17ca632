"""What the bulk lane's own acknowledgements say of the link, in virtual time."""

from edge.outbox.sending.goodput import BASE_SPAN_US, LEAST_CROSSING_US, SPAN_US, Goodput

RTT_US = 30_000
SIZE = 10_000


def test_the_round_trip_is_taken_out_of_what_a_chunk_took() -> None:
    goodput = Goodput()
    goodput.sent(1, SIZE, 0)
    goodput.acked(1, RTT_US + 10_000, rtt_us=RTT_US)
    assert goodput.bytes_per_s == 1e6


def test_chunks_under_way_together_are_carried_one_after_the_other() -> None:
    goodput = Goodput()
    for batch in range(1, 6):
        goodput.sent(batch, SIZE, 0)
    assert goodput.out_bytes == 5 * SIZE
    for batch in range(1, 6):
        goodput.acked(batch, RTT_US + 10_000 * batch, rtt_us=RTT_US)
    assert goodput.bytes_per_s == 1e6
    assert goodput.out_bytes == 0


def test_a_link_that_idles_between_chunks_is_no_slower_for_it() -> None:
    goodput = Goodput()
    for batch in range(10):
        at_us = batch * 100_000
        goodput.sent(batch, SIZE, at_us)
        goodput.acked(batch, at_us + RTT_US + 10_000, rtt_us=RTT_US)
    assert goodput.bytes_per_s == 1e6


def test_acknowledged_at_once_is_not_infinitely_fast() -> None:
    goodput = Goodput()
    goodput.sent(1, SIZE, 0)
    goodput.acked(1, 0, rtt_us=RTT_US)
    assert goodput.bytes_per_s == SIZE / LEAST_CROSSING_US * 1e6


def test_only_what_crossed_lately_counts() -> None:
    goodput = Goodput()
    goodput.sent(1, SIZE, 0)
    goodput.acked(1, RTT_US + 100_000, rtt_us=RTT_US)
    later_us = 2 * SPAN_US
    goodput.sent(2, SIZE, later_us)
    goodput.acked(2, later_us + RTT_US + 10_000, rtt_us=RTT_US)
    assert goodput.bytes_per_s == 1e6


def test_a_chunk_is_compared_with_the_quickest_of_late() -> None:
    goodput = Goodput()
    for batch, took_us in enumerate((50_000, 40_000, 70_000)):
        goodput.sent(batch, SIZE, batch * 100_000)
        beyond_us = goodput.acked(batch, batch * 100_000 + took_us, rtt_us=RTT_US)
    assert beyond_us == 30_000
    later_us = 2 * BASE_SPAN_US
    goodput.sent(9, SIZE, later_us)
    assert goodput.acked(9, later_us + 70_000, rtt_us=RTT_US) == 0


def test_what_is_not_waited_for_says_nothing() -> None:
    goodput = Goodput()
    goodput.sent(1, SIZE, 0)
    goodput.sent(2, SIZE, 0)
    goodput.forget(1)
    goodput.forget(7)
    assert goodput.out_bytes == SIZE
    assert goodput.acked(1, 1_000_000, rtt_us=RTT_US) is None
    goodput.forget_all()
    assert goodput.acked(2, 1_000_000, rtt_us=RTT_US) is None
    assert (goodput.out_bytes, goodput.bytes_per_s) == (0, 0.0)
