"""Field cases around the agent, with real processes."""

from pathlib import Path

import psutil
import pytest

from tests.support.rig import rig


@pytest.mark.alone
def test_when_frames_come_faster_than_they_can_be_answered_the_newest_wins_and_memory_is_flat(tmp_path: Path):
    """F02"""
    with rig(tmp_path, fps=60, near_delay="50ms", policy="near_only", deadline="300ms") as r:
        agent = r.start_agent()
        r.wait_answers("near", 10)
        early = psutil.Process(agent.popen.pid).memory_info().rss
        r.wait_answers("near", 60, within_s=15)
        late = psutil.Process(agent.popen.pid).memory_info().rss
        summary = r.stop_agent()
        assert late < early * 1.2 + 8_000_000
        frames = summary["frames"]
        assert frames["shed"]["slot_overwritten"] > frames["near"]
        assert max(a["latency_ms"] for a in r.seen) < 400


def test_identities_are_never_reused_by_the_next_start(tmp_path: Path):
    """F11"""
    with rig(tmp_path) as r:
        r.start_agent()
        r.wait_answers("near", 20, within_s=30.0)
        r.kill_agent()
        r.start_worker()
        r.start_agent("--frames", "60")
        r.finish_agent()
        r.stop_worker()
        seen = r.seen_identities()
        assert len({run for run, _, _ in seen}) == 2
        assert len(set(seen)) == len(seen)
        records = r.records()
        assert set(seen) <= set(records)
        interrupted = r.interrupted()
        assert all(interrupted(i) for i in set(records) - set(seen))


@pytest.mark.alone
def test_a_gateway_that_boots_without_a_cloud_answers_at_once_and_finds_it_later(tmp_path: Path):
    """F16"""
    with rig(tmp_path) as r:
        r.start_agent()
        near = r.wait_answers("near", 25)
        assert near[0]["seq"] <= 2
        assert all(a["on_time"] for a in near)
        after = len(r.answers)
        r.start_worker()
        r.wait_far_on_time(after=after, within_s=2.0)
        r.stop_agent()


def test_a_failed_detector_run_is_a_status_and_never_an_empty_list(tmp_path: Path):
    """F18"""
    with rig(tmp_path, near_extra=", fail_every: 3", policy="near_only", deadline="5s") as r:
        r.start_agent()
        failed = r.wait_answers("missed", 5, within_s=30.0)
        r.wait_answers("near", 5)
        r.stop_agent(within_s=10.0)
        assert {a["status"] for a in failed} == {"failed"}
        assert all(a["detections"] is None for a in failed)
        assert all(a["detections"] for a in r.seen if a["answered_by"] == "near")


@pytest.mark.alone
def test_stopping_takes_at_most_two_seconds_without_a_cloud(tmp_path: Path):
    with rig(tmp_path) as r:
        r.start_agent()
        r.wait_answers("near", 5)
        r.stop_agent(within_s=2.0)
