"""When backfill may go, in virtual time."""

from edge.outbox.sending.pacing import (
    AT_LEAST_EVERY_US,
    LARGE_BYTES,
    SHARE,
    SMALL_BYTES,
    UNPACED_BYTES_PER_S,
    Pacing,
)

START = 1_000_000


def reachable(now_us: int = START) -> Pacing:
    pacing = Pacing()
    pacing.reachable(connected=True, now_us=now_us)
    return pacing


def observe(
    pacing: Pacing,
    now_us: int,
    *,
    in_flight_bytes: int = 0,
    over_budget: bool = False,
    bytes_per_s: float = 1e6,
    queueing_us: int = 0,
) -> None:
    pacing.observe(
        in_flight_bytes=in_flight_bytes,
        over_budget=over_budget,
        bytes_per_s=bytes_per_s,
        queueing_us=queueing_us,
        now_us=now_us,
    )


def test_nothing_goes_while_the_worker_cannot_be_reached() -> None:
    pacing = Pacing()
    assert pacing.allowance_bytes(START) == 0
    pacing.reachable(connected=True, now_us=START)
    assert pacing.allowance_bytes(START) > 0
    pacing.reachable(connected=False, now_us=START)
    assert pacing.allowance_bytes(START + 2 * AT_LEAST_EVERY_US) == 0


def test_without_live_traffic_a_large_chunk_goes() -> None:
    pacing = reachable()
    observe(pacing, START, bytes_per_s=1e7)
    assert pacing.allowance_bytes(START + 3_000_000) == LARGE_BYTES


def test_a_chunk_between_live_frames_crosses_within_the_gap() -> None:
    pacing = reachable()
    observe(pacing, START, bytes_per_s=1e6)
    size = pacing.allowance_bytes(START)
    assert SMALL_BYTES < size <= 10_000


def test_backfill_pauses_while_live_frames_queue() -> None:
    pacing = reachable()
    observe(pacing, START, in_flight_bytes=30_000, queueing_us=15_000)
    assert pacing.allowance_bytes(START) == 0
    observe(pacing, START, in_flight_bytes=30_000, queueing_us=9_000)
    assert pacing.allowance_bytes(START) > 0


def test_a_small_chunk_goes_every_five_seconds_whatever_the_link_does() -> None:
    pacing = reachable()
    sent = []
    for tick in range(0, 30_000_000, 100_000):
        now_us = START + tick
        observe(pacing, now_us, in_flight_bytes=30_000, queueing_us=500_000)
        if size := pacing.allowance_bytes(now_us):
            pacing.sent(size, now_us)
            sent.append(size)
    assert sent == [SMALL_BYTES] * 5


def test_over_budget_backfill_takes_at_most_its_share_of_the_goodput() -> None:
    pacing = reachable()
    sent = 0
    for tick in range(0, 60_000_000, 10_000):
        now_us = START + tick
        observe(pacing, now_us, over_budget=True, bytes_per_s=50_000.0, queueing_us=300_000)
        if size := pacing.allowance_bytes(now_us):
            pacing.sent(size, now_us)
            sent += size
    assert 0.7 * 60 * 50_000 <= sent <= SHARE * 60 * 50_000 + LARGE_BYTES


def test_asking_again_when_told_never_spins() -> None:
    pacing = reachable()
    observe(pacing, START, over_budget=True, bytes_per_s=50_000.0)
    now_us, asked, end_us = START, 0, START + 60_000_000
    while now_us < end_us:
        asked += 1
        if size := pacing.allowance_bytes(now_us):
            pacing.sent(size, now_us)
            observe(pacing, now_us, over_budget=True, bytes_per_s=50_000.0)
        due_us = pacing.due_us(now_us)
        assert due_us > now_us or pacing.allowance_bytes(now_us) > 0
        now_us = max(due_us, now_us + 1)
    assert asked < 1000


def test_while_no_live_frame_tells_the_bandwidth_what_crossed_does() -> None:
    pacing = reachable()
    observe(pacing, START, over_budget=True, bytes_per_s=0)
    before = pacing.allowance_bytes(START)
    for batch in range(8):
        pacing.sent(50_000, START, batch=batch)
        pacing.acked(batch, START + 10_000 * (batch + 1))
    later_us = START + 10 * AT_LEAST_EVERY_US
    observe(pacing, later_us, over_budget=True, bytes_per_s=0)
    assert pacing.allowance_bytes(later_us) == LARGE_BYTES > before
    pacing.reachable(connected=True, now_us=later_us)
    assert pacing.allowance_bytes(later_us) == before


def test_back_in_budget_the_lane_begins_with_what_crossed_before() -> None:
    pacing = reachable()
    observe(pacing, START, over_budget=True, bytes_per_s=1e7)
    pacing.sent(10_000, START, batch=1)
    pacing.acked(1, START + 50_000)
    later_us = START + 100_000
    observe(pacing, later_us, bytes_per_s=1e7)
    assert pacing.allowance_bytes(later_us) == SMALL_BYTES, (
        "200 kB/s are known to go, and 10 ms of them are small"
    )


def test_one_frame_behind_one_chunk_is_no_queue_and_four_looks_in_a_row_are() -> None:
    pacing = reachable()
    for number, queueing_us in enumerate((2_000, 25_000, 25_000, 25_000)):
        observe(pacing, START + number * 50_000, in_flight_bytes=1, queueing_us=queueing_us)
        assert pacing.allowance_bytes(START + number * 50_000) > 0
    observe(pacing, START + 200_000, in_flight_bytes=1, queueing_us=25_000)
    assert pacing.allowance_bytes(START + 200_000) == 0


def test_a_queue_is_asked_after_again_soon() -> None:
    pacing = reachable()
    observe(pacing, START, in_flight_bytes=1, queueing_us=25_000)
    assert START < pacing.due_us(START) <= START + 50_000


def test_what_is_under_way_is_bounded_and_an_acknowledgement_or_a_loss_makes_room() -> None:
    def filled() -> tuple[Pacing, int, int]:
        pacing, now_us, batch = reachable(), START, 0
        observe(pacing, now_us)
        while batch < 1000 and (now_us < pacing.due_us(now_us) < START + 1_000_000 or batch == 0):
            now_us = max(now_us, pacing.due_us(now_us))
            observe(pacing, now_us)
            while size := pacing.allowance_bytes(now_us):
                batch += 1
                pacing.sent(size, now_us, batch=batch)
        return pacing, now_us, batch

    pacing, now_us, batch = filled()
    assert 2 <= batch < 30
    assert pacing.allowance_bytes(now_us + 500_000) == 0
    for number in range(1, batch):
        pacing.lost(number)
    assert pacing.allowance_bytes(now_us + 500_000) > 0
    pacing, now_us, batch = filled()
    pacing.lost_all()
    assert pacing.allowance_bytes(now_us + 500_000) > 0
    pacing, now_us, batch = filled()
    for number in range(1, batch + 1):
        pacing.acked(number, now_us + 100_000)
    assert pacing.allowance_bytes(now_us + 500_000) > 0


def test_whoever_has_no_live_frames_is_not_paced() -> None:
    pacing = reachable()
    observe(pacing, START, over_budget=True, bytes_per_s=UNPACED_BYTES_PER_S)
    for batch in range(50):
        assert pacing.allowance_bytes(START + batch * 1000) == LARGE_BYTES
        pacing.sent(LARGE_BYTES, START + batch * 1000, batch=batch)


def test_a_chunk_waits_for_the_live_frame_it_would_hold_up() -> None:
    pacing = reachable()
    for number in range(20):
        pacing.live_sent(START + number * 50_000)
    pacing.sent(10_000, START, batch=1)
    pacing.acked(1, START + 10_000)
    now_us = START + 20 * 50_000 - 3_000
    observe(pacing, now_us)
    assert pacing.allowance_bytes(now_us) == 0
    due_us = pacing.due_us(now_us)
    assert now_us + 3_000 <= due_us <= now_us + 10_000
    assert pacing.allowance_bytes(due_us) > 0
