"""When backfill may go, in virtual time."""

from edge.outbox.pacing import AT_LEAST_EVERY_US, LARGE_BYTES, SHARE, SMALL_BYTES, Pacing

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
    assert SMALL_BYTES < size <= 20_000


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
