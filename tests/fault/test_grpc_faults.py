"""Field cases around the worker once more, with real processes and gRPC between them."""

import signal
from pathlib import Path

import pytest

from nearfar.relay import Relay
from tests.support.rig import Rig, rig

pytestmark = pytest.mark.alone


def _healthy(r: Rig) -> int:
    """≥ 20 far answers; how many answers have been given so far."""
    r.wait_answers("far", 20)
    return len(r.answers)


def test_a_frame_in_flight_when_the_worker_dies_is_answered_near_and_a_new_worker_is_found(tmp_path: Path):
    """F01, F11: kill −9, and another worker on the same port."""
    with rig(tmp_path, far_delay="60ms", link="grpc") as r:
        r.start_worker()
        r.start_agent("--frames", "150")
        before = _healthy(r)
        assert r.worker is not None
        r.worker.kill()
        near = r.wait_answers("near", 20, after=before)
        assert all(a["on_time"] for a in near)
        again = len(r.answers)
        r.start_worker()
        r.wait_far_on_time(after=again, within_s=2.0)
        summary = r.finish_agent()
        assert summary["frames"]["missed"] == 0
        assert summary["outbox"]["pending"] == 0
        r.stop_worker()
        records = r.records()
        assert len(records) == len(set(records))
        assert set(records) == set(r.seen_identities())


def test_a_frozen_worker_costs_no_frame_and_no_deadline(tmp_path: Path):
    """F04"""
    with rig(tmp_path, link="grpc") as r:
        worker = r.start_worker()
        r.start_agent()
        before = _healthy(r)
        worker.signal(signal.SIGSTOP)
        near = r.wait_answers("near", 60, after=before)
        assert all(a["on_time"] for a in near)
        worker.signal(signal.SIGCONT)
        r.wait_far_on_time(after=len(r.answers), within_s=2.0)
        summary = r.stop_agent()
        assert summary["frames"]["missed"] == 0


def test_after_a_blackhole_far_is_back_within_a_second_and_a_half(tmp_path: Path):
    """F23, F30: TCP itself would come back seconds late; a fresh connection does not wait for it."""
    with rig(tmp_path, link="grpc") as r:
        r.start_worker()
        relay = Relay(listen="127.0.0.1:0", to=f"127.0.0.1:{r.port}")
        relay.start()
        try:
            r.options["link_port"] = int(relay.address.rpartition(":")[2])
            r.start_agent()
            before = _healthy(r)
            relay.set(state="stall")
            near = r.wait_answers("near", 100, after=before)
            assert all(a["on_time"] for a in near)
            relay.set(state="pass")
            r.wait_far_on_time(after=len(r.answers), within_s=1.5)
            summary = r.stop_agent()
            assert summary["frames"]["missed"] == 0
        finally:
            relay.stop()
