"""Near's timeline: slots end late, move earlier for others, and never overlap."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from edge.scheduling.near.timeline import NearTimeline


def test_a_slot_ends_as_late_as_it_may():
    slot = NearTimeline().reserve(("s", 1), guard_us=20, latest_end_us=100, now_us=0)
    assert slot is not None
    assert (slot.start_us, slot.end_us) == (80, 100)


def test_an_overlap_moves_the_earlier_slot_earlier():
    timeline = NearTimeline()
    timeline.reserve(("s", 1), guard_us=40, latest_end_us=100, now_us=0)
    timeline.reserve(("s", 2), guard_us=40, latest_end_us=120, now_us=0)
    assert [(s.start_us, s.end_us) for s in timeline.slots] == [(40, 80), (80, 120)]


def test_a_reservation_that_cannot_be_had_changes_nothing():
    timeline = NearTimeline()
    timeline.reserve(("s", 1), guard_us=40, latest_end_us=100, now_us=0)
    before = timeline.slots
    assert timeline.reserve(("s", 2), guard_us=70, latest_end_us=100, now_us=0) is None
    assert timeline.slots == before


def test_a_released_slot_makes_room_and_moves_nobody_later():
    timeline = NearTimeline()
    timeline.reserve(("s", 1), guard_us=40, latest_end_us=100, now_us=0)
    timeline.reserve(("s", 2), guard_us=40, latest_end_us=120, now_us=0)
    timeline.release(("s", 2))
    assert [(s.start_us, s.end_us) for s in timeline.slots] == [(40, 80)]


def test_nothing_is_reserved_inside_the_run_that_is_on():
    timeline = NearTimeline()
    timeline.reserve(("s", 1), guard_us=40, latest_end_us=100, now_us=0)
    timeline.begin(("s", 1), guard_us=40, now_us=60)
    assert timeline.reserve(("s", 2), guard_us=40, latest_end_us=130, now_us=60) is None
    timeline.finish(70)
    assert timeline.reserve(("s", 2), guard_us=40, latest_end_us=130, now_us=70) is not None


@given(st.lists(st.tuples(st.integers(1, 60), st.integers(0, 500), st.booleans()), max_size=40))
def test_slots_never_overlap_and_never_end_after_their_latest_end(wishes):
    timeline = NearTimeline()
    latest = {}
    for seq, (guard_us, latest_end_us, release) in enumerate(wishes):
        key = ("s", seq)
        latest[key] = latest_end_us
        ends = {s.key: s.end_us for s in timeline.slots}
        timeline.reserve(key, guard_us=guard_us, latest_end_us=latest_end_us, now_us=0)
        if release and timeline.slots:
            timeline.release(timeline.slots[0].key)
        slots = timeline.slots
        assert all(a.end_us <= b.start_us for a, b in pairwise(slots))
        assert all(s.start_us >= 0 and s.end_us <= latest[s.key] for s in slots)
        assert all(s.end_us <= ends.get(s.key, s.end_us) for s in slots)
