"""What the scheduler spares itself changes nothing it decides: each shortcut against the long way round."""

from bisect import insort
from copy import deepcopy
from typing import ClassVar
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from edge.scheduling.decision import Decision
from edge.scheduling.far_way import FarWay
from edge.scheduling.link_estimate import LinkEstimate
from edge.scheduling.near_timeline import NearTimeline, Slot
from pipelines.result import Load, WorkerTiming
from tests.support.virtual import LADDER, MS, links, world

PART = st.fixed_dictionaries(
    {
        "rtt_ms": st.sampled_from([5, 20, 60, 90, 250, None]),
        "mbit": st.sampled_from([0.5, 2, 4, 20]),
        "worker_ms": st.sampled_from([1, 20, 80]),
    }
)
PHASES = st.lists(
    st.tuples(st.lists(PART, min_size=2, max_size=2), st.integers(2, 12), st.sampled_from([15, 33, 66])),
    min_size=2,
    max_size=5,
)


def _always(value):
    return lambda _: value


class Checked(Decision):
    """Decides as ever, and looks at every rung beside: `compared` has what was found and what should have been."""

    compared: ClassVar[list[tuple[object, object]]] = []
    crowded_ways: ClassVar[list[FarWay]] = []

    def _on(self, way, job, chances, *, fallback, floor, now_us):
        best, crowded = self._plain(way, job, chances, fallback=fallback, floor=floor, now_us=now_us)
        self.crowded_ways.clear()
        found = super()._on(way, job, chances, fallback=fallback, floor=floor, now_us=now_us)
        self.compared.append((None if found is None else tuple(found[0][:5]), best))
        self.compared.append((way in self.crowded_ways, crowded))
        return found

    def _plain(self, way, job, chances, *, fallback, floor, now_us):
        """Its option and forecast's answers, and whether the link was too full."""
        way.share.asked(job.key[0], job.priority, now_us)
        if way.yields(job.key[0], now_us):
            return None, False
        room_bytes = way.room_bytes(job.priority, now_us)
        forecast = way.forecast(now_us)
        best, best_value, crowded = None, floor, False
        for most, rung, size_bytes, remaining_us, _, _ in chances:
            if most <= best_value:
                continue
            p = forecast.p_on_time(size_bytes, remaining_us)
            if size_bytes > room_bytes or p == 0.0:
                crowded = crowded or bool(way.flights)
                continue
            value = self._worth(way, job, rung, p, fallback, near_waits=False)
            if value > best_value:
                best, best_value = (way.name, rung, value, p, size_bytes), value
        return best, crowded


@given(PHASES)
@settings(max_examples=40, deadline=None)
def test_a_rung_that_is_not_looked_at_closely_would_not_have_been_chosen(phases):
    found_short = FarWay.found_short

    def noted(way, now_us):
        Checked.crowded_ways.append(way)
        found_short(way, now_us)

    Checked.compared.clear()
    with (
        patch("edge.scheduling.scheduler.Decision", Checked),
        patch.object(FarWay, "found_short", noted),
    ):
        w = world(ladder=LADDER, links=links("a", "b"))
        seq = 1
        for parts, frames, every_ms in phases:
            for wire, part in zip(w.wires.values(), parts, strict=True):
                rtt_us = None if part["rtt_ms"] is None else part["rtt_ms"] * MS
                wire.rtt_us = _always(rtt_us)
                wire.worker_us = _always(part["worker_ms"] * MS)
                wire.bytes_per_us = part["mbit"] / 8
            for _ in range(frames):
                w.frame(seq, "s")
                w.frame(seq, "t")
                seq += 1
                w.run_until(w.now_us + every_ms * MS)
    assert Checked.compared
    for got, want in Checked.compared:
        assert got == want


def _plainly_reserved(slots, key, *, guard_us, latest_end_us, now_us, early_us):
    """The plan with `key` in it, every slot moved as early as those behind it want; None if it starts too soon."""
    plan = [*slots]
    insort(plan, Slot(latest_end_us, latest_end_us - guard_us, key, early_us))
    bound_us = None
    for i in range(len(plan) - 1, -1, -1):
        slot = plan[i]
        if bound_us is not None and slot.end_us > bound_us:
            length_us = slot.end_us - slot.start_us
            plan[i] = slot = Slot(bound_us, bound_us - length_us, slot.key, slot.early_us)
        bound_us = slot.start_us
    return None if plan[0].start_us < now_us else tuple(plan)


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 200), st.integers(0, 3)), max_size=40))
def test_a_slot_put_in_moves_the_others_as_if_all_were_laid_out_anew(wishes):
    timeline = NearTimeline()
    for seq, (guard_us, latest_end_us, release) in enumerate(wishes):
        before = timeline.slots
        wish = {"guard_us": guard_us, "latest_end_us": latest_end_us, "now_us": 5, "early_us": None}
        want = _plainly_reserved(before, ("s", seq), **wish)
        slot = timeline.reserve(("s", seq), **wish)
        assert timeline.slots == (want or before)
        assert slot == (timeline.get(("s", seq)) if want else None)
        if release == 0 and timeline.slots:
            timeline.release(timeline.slots[0].key)


EVENT = st.one_of(
    st.tuples(st.just("frame"), st.integers(1, 400), st.integers(500, 60_000), st.integers(0, 80)),
    st.tuples(st.just("overdue"), st.integers(1, 400), st.integers(500, 60_000), st.just(0)),
    st.tuples(st.just("ping"), st.integers(1, 400), st.just(0), st.just(0)),
    st.tuples(st.just("load"), st.integers(0, 90), st.just(0), st.just(0)),
)


class Forgetful(LinkEstimate):
    """Can be made to say anew what it remembers of its last answer."""

    def forget(self):
        self._outlook, self._rtt_now_until_us = None, 0


@given(st.lists(st.tuples(st.integers(0, 900), EVENT), max_size=60))
@settings(deadline=None)
def test_what_is_remembered_of_a_link_is_what_it_would_say_anew(events):
    link = Forgetful()
    now_us = 10_000_000
    for seq, (wait_ms, (kind, ms, size_bytes, spread_ms)) in enumerate(events):
        now_us += wait_ms * MS
        nominal = link.nominal(size_bytes=size_bytes, in_flight_bytes=0, now_us=now_us)
        sent_us = now_us - ms * MS
        if kind == "frame":
            timing = WorkerTiming(head_mono_us=0, body_mono_us=spread_ms * MS, resident_us=3 * MS)
            link.observe_frame(
                size_bytes=size_bytes,
                sent_us=sent_us,
                arrived_us=now_us,
                nominal=nominal,
                timing=timing,
                frame=("s", seq - 1),
            )
        elif kind == "overdue":
            link.observe_overdue(sent_us=sent_us, nominal=nominal, now_us=now_us, frame=("s", seq))
        elif kind == "ping":
            link.observe_rtt(ms * MS, now_us)
        else:
            link.observe_load(Load(queue_us=ms * MS, service_p50_us=5 * MS), now_us)
        anew = deepcopy(link)
        anew.forget()
        kept, fresh = link.forecast(now_us), anew.forecast(now_us)
        assert link.rtt_now_us(now_us) == anew.rtt_now_us(now_us)
        for size in (1_000, 20_000, 100_000):
            assert kept.completion_us(size) == fresh.completion_us(size)
            for remaining_ms in (5, 40, 90, 400):
                p = kept.p_on_time(size, remaining_ms * MS)
                assert p == fresh.p_on_time(size, remaining_ms * MS)
                assert kept.possible(size, remaining_ms * MS) == (p > 0.0)
