"""Backfill beside live frames over one link, in virtual time: it takes what is spare, and live frames hardly notice."""

import pytest

from tests.support.bulk_road import Found, Road

LINKS = {
    "8 Mbit/s, records": Road(),
    "8 Mbit/s, payloads": Road(grouped=False),
    "8 Mbit/s, round trips that vary by 15 ms": Road(jitter_us=15_000),
    "8 Mbit/s, 3.6 Mbit/s of live frames": Road(frame_bytes=30_000, fps=15),
    "8 Mbit/s, and live frames believe in 24": Road(live_bytes_per_s=3e6),
    "8 Mbit/s, a gateway and a worker that stumble": Road(stumble_us=120_000, late_us=20_000),
    "50 Mbit/s": Road(bytes_per_s=6.25e6, live_bytes_per_s=2e6),
    "50 Mbit/s, round trip 200 ms": Road(bytes_per_s=6.25e6, live_bytes_per_s=2e6, rtt_us=200_000),
}


@pytest.mark.parametrize("name", LINKS)
def test_more_than_half_of_what_is_spare_is_used_and_live_frames_wait_little(name: str) -> None:
    found = LINKS[name].run(20)
    assert found.share >= 0.6
    assert found.waited(0.5) <= 10_000
    assert found.waited(0.95) <= 35_000


def test_a_narrow_link_is_filled_between_the_frames() -> None:
    found = Road(bytes_per_s=125e3, live_bytes_per_s=1e5, fps=10).run(20)
    assert found.share >= 0.6
    assert found.waited(0.95) <= 35_000, "one small chunk takes 33 ms there"


@pytest.mark.parametrize("grouped", [True, False], ids=["records", "payloads"])
def test_over_budget_it_leaves_a_part_of_the_goodput(grouped: bool) -> None:
    found = Road(over_budget=True, fps=0, grouped=grouped).run(20)
    assert 0.5 <= found.share <= 0.85


def test_a_slow_link_over_budget_is_not_buried_under_what_live_frames_once_believed() -> None:
    def buried(live_bytes_per_s: float) -> Found:
        road = Road(
            over_budget=True, fps=1, frame_bytes=500, bytes_per_s=20e3, rtt_us=400_000,
            live_bytes_per_s=live_bytes_per_s,
        )  # fmt: skip
        return road.run(60)

    assert buried(1e6).share <= 0.85
    assert buried(1e6).waited(0.95) <= 1_000_000
    assert buried(1e4).share >= 0.4


def test_chunks_under_way_are_bounded_by_what_the_link_holds() -> None:
    road = Road(live_bytes_per_s=3e6, most_out=1000)
    found = road.run(20)
    held_bytes = road.bytes_per_s * (road.rtt_us + 25_000 + 40_000) / 1e6
    assert found.most_out_bytes <= 1.5 * held_bytes
