"""How soon a worker turns a frame away is its own figure."""

from dataclasses import replace
from pathlib import Path

from protos.wire.live import FrameHead
from tests.support.exposition import samples
from tests.support.peers import FakePeer
from tests.support.rigs import ENCODING, HELLO
from tests.support.workers import service


def test_a_head_is_timed_from_its_arrival_to_the_hand_off_of_its_reject(tmp_path: Path) -> None:
    now_us = [1_000_000]
    with service(tmp_path, clock=lambda: now_us[0], timer=False) as (made, _):
        session = made.open(FakePeer())
        head = FrameHead(stream=0, seq=1, worker_budget_us=0, sent_mono_us=0, encoding=ENCODING)
        session.receive(head, now_us[0] - 7_000)  # before its Hello
        session.receive(HELLO, now_us[0])
        session.receive(head, now_us[0] - 100)
        session.receive(replace(head, seq=2, worker_budget_us=1_000_000), now_us[0])  # let in
        seen = samples(made.metrics)
    assert seen["nearfar_worker_reject_seconds_count"] == 2
    assert seen["nearfar_worker_reject_seconds_sum"] == 0.0071
    assert seen['nearfar_worker_reject_seconds_bucket{le="0.0001"}'] == 1
    assert seen['nearfar_worker_reject_seconds_bucket{le="0.005"}'] == 1
    assert seen['nearfar_worker_reject_seconds_bucket{le="0.0075"}'] == 2
