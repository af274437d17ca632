"""Who had more than its share, whatever the clock says and however long ago it began."""

from hypothesis import given, settings
from hypothesis import strategies as st

from edge.scheduling.fair_share import ACTIVE_US, FLOOR_US, HALF_LIFE_US, REBASE_US, SLACK, WEIGHTS, FairShare
from pipelines.result import Priority

STREAMS = {"a": Priority.HIGH, "b": Priority.NORMAL, "c": Priority.LOW}
STEP = st.tuples(
    st.sampled_from([0, 1, 40_000, ACTIVE_US, HALF_LIFE_US, REBASE_US // 3, REBASE_US + 1]),
    st.sampled_from(["asked", "charge"]),
    st.sampled_from(sorted(STREAMS)),
    st.integers(1, 10**6),
)


def ahead_by_hand(charges, asked, served, stream, now_us):
    """From every charge there was, each faded by its age."""
    asking = [s for s, at_us in asked.items() if now_us - at_us < ACTIVE_US]
    if stream not in asking or now_us - served[stream] >= FLOOR_US:
        return False, 0.0
    used = {
        s: sum(x * 0.5 ** ((now_us - t) / HALF_LIFE_US) for of, x, t in charges if of == s) for s in asking
    }
    due = sum(used.values()) * WEIGHTS[STREAMS[stream]] / sum(WEIGHTS[STREAMS[s]] for s in asking)
    return used[stream] > SLACK * due, used[stream] - SLACK * due


@given(st.integers(0, 10**12), st.lists(STEP, max_size=40))
@settings(deadline=None)
def test_use_fades_by_half_and_who_is_ahead_is_who_had_more_of_what_is_left(start_us, steps):
    share = FairShare()
    charges, asked = [], {}
    served: dict[str, int] = {}
    now_us = start_us
    for wait_us, what, stream, amount in steps:
        now_us += wait_us
        if what == "asked":
            share.asked(stream, STREAMS[stream], now_us)
            asked[stream] = now_us
            served.setdefault(stream, now_us)
        else:
            share.charge(stream, amount, now_us)
            charges.append((stream, amount, now_us))
            served[stream] = now_us
        for one in STREAMS:
            ahead, by = ahead_by_hand(charges, asked, served, one, now_us)
            assert share.ahead(one, now_us) == ahead or abs(by) < 1e-6
            assert share.starved(one, now_us) == (one in served and now_us - served[one] >= FLOOR_US)


def test_who_was_not_served_for_a_second_comes_first_then_who_had_least_per_weight():
    share = FairShare()
    for stream in ("a", "b", "c"):
        share.asked(stream, Priority.NORMAL, 0)
    share.charge("a", 300.0, 900_000)
    share.charge("b", 100.0, 900_000)
    ranks = {s: share.rank(s, Priority.NORMAL, 1_100_000) for s in ("a", "b", "c")}
    assert sorted(ranks, key=ranks.__getitem__) == ["c", "b", "a"]
