"""The queue of a sink, in memory and on disk: in order, bounded, and nothing of it is lost silently."""

import pytest

from edge.sinks.delivery.spool import Spool
from edge.sinks.delivery.spool_file import SpoolFile
from tests.support.spools import Clock, deliver, put, seqs, sight, spool


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(params=["memory", "disk"])
def any_spool(request, clock, tmp_path):
    def make(**settings):
        file = SpoolFile(tmp_path / "q.db") if request.param == "disk" else None
        made.append(spool(clock, file=file, **settings))
        return made[-1]

    made: list[Spool] = []
    yield make
    for queue in made:
        queue.close()


def test_what_was_put_first_is_given_first_and_leaves_only_when_it_was_taken(any_spool):
    queue = any_spool()
    put(queue, 1, 2)
    put(queue, 3)
    assert seqs(queue) == seqs(queue) == [1, 2, 3]
    deliver(queue, 2)
    assert seqs(queue) == [3]
    assert (sight(queue).delivered, sight(queue).waiting) == (2, 1)


def test_a_delivery_is_bounded_by_count_and_bytes_but_never_empty(any_spool):
    queue = any_spool()
    put(queue, 1, 2, 3)
    assert len(queue.peek(limit=2, max_bytes=1 << 20)) == 2
    assert len(queue.peek(limit=3, max_bytes=1)) == 1


def test_beyond_its_bytes_the_oldest_give_way_and_are_counted(any_spool):
    queue = any_spool(max_bytes=8192)
    for seq in range(1, 101):
        put(queue, seq)
    left = seqs(queue)
    assert left == list(range(left[0], 101))
    assert left[0] > 1
    seen = sight(queue)
    assert seen.bytes <= 8192
    assert seen.evicted == {"age": 0, "bytes": left[0] - 1}


def test_what_is_too_old_is_given_up_even_if_nothing_new_comes(any_spool, clock):
    queue = any_spool(max_age_us=60_000_000)
    put(queue, 1)
    clock.now_us += 40_000_000
    put(queue, 2)
    assert sight(queue).oldest_us == 40_000_000
    clock.now_us += 30_000_000
    assert seqs(queue) == [2]
    assert sight(queue).evicted == {"age": 1, "bytes": 0}


def test_what_a_receiver_refuses_is_counted_by_its_reason(any_spool):
    queue = any_spool()
    put(queue, 1, 2)
    queue.settle(queue.peek(limit=1, max_bytes=1 << 20), refused="http_400")
    assert sight(queue).refused == {"http_400": 1}
    assert seqs(queue) == [2]


def test_what_is_evicted_while_it_is_being_delivered_is_counted_once(any_spool):
    queue = any_spool(max_bytes=8192)
    put(queue, 1)
    in_hand = queue.peek(limit=1, max_bytes=1 << 20)
    for seq in range(2, 40):
        put(queue, seq)
    queue.settle(in_hand)
    assert sight(queue).delivered == 0
    assert sight(queue).evicted["bytes"] > 0


def test_what_only_memory_held_is_abandoned_and_counted_at_the_end(clock):
    queue = spool(clock)
    put(queue, 1, 2)
    deliver(queue, 1)
    queue.close()
    assert (sight(queue).abandoned, sight(queue).lost) == (1, 1)


def test_a_durable_queue_goes_on_where_the_last_process_ended(clock, tmp_path):
    first = spool(clock, file=SpoolFile(tmp_path / "q.db"))
    put(first, 1, 2, 3)
    deliver(first, 1)
    # Not closed: as after kill -9.
    second = spool(clock, file=SpoolFile(tmp_path / "q.db"))
    put(second, 4)
    assert seqs(second) == [2, 3, 4]
    assert (sight(second).inherited, sight(second).taken) == (2, 1)
    second.close()
    assert sight(second).abandoned == 0


def test_the_age_of_what_waits_is_uptime_so_a_night_without_power_makes_nothing_old(clock, tmp_path):
    first = spool(clock, file=SpoolFile(tmp_path / "q.db"), max_age_us=60_000_000)
    put(first, 1)
    clock.now_us += 30_000_000
    first.close()
    clock.now_us = 7  # another boot: the monotonic clock starts anew
    second = spool(clock, file=SpoolFile(tmp_path / "q.db"), max_age_us=60_000_000)
    assert sight(second).oldest_us == 30_000_000
    clock.now_us += 29_000_000
    assert seqs(second) == [1]
    clock.now_us += 2_000_000
    assert seqs(second) == []
    second.close()


def test_a_drained_queue_gives_its_space_back(clock, tmp_path):
    path = tmp_path / "q.db"
    queue = spool(clock, file=SpoolFile(path), max_bytes=64 << 20)
    for first in range(1, 3001, 100):
        put(queue, *range(first, first + 100))
    grown = path.stat().st_size + path.with_name("q.db-wal").stat().st_size
    while not queue.empty:
        deliver(queue, 500)
    assert path.stat().st_size < grown / 10  # at once, not only at the end
    queue.close()


def test_what_a_durable_queue_writes_to_the_flash_is_counted_and_memory_writes_nothing(clock, tmp_path):
    queue = spool(clock, file=SpoolFile(tmp_path / "q.db"), max_bytes=64 << 20)
    for seq in range(1, 2001):
        put(queue, seq)
    wrote = sight(queue).flash_bytes
    size = sum(len(p.body) for p in queue.peek(limit=2000, max_bytes=1 << 30))
    assert size < wrote < 30 * size
    queue.close()
    assert sight(spool(clock)).flash_bytes == 0
