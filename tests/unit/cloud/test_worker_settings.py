"""Every number of a worker file reaches the part that it bounds."""

from pathlib import Path
from typing import Any

import pytest

import cloud.keeping.storeroom
import cloud.worker
from cloud.config import load_worker
from cloud.limits import ServiceLimits
from pipelines.errors import Fatal

WORKER = """\
version: 1
state_dir: worker
listen: {grpc: {address: "127.0.0.1:0", reflection: false}}
models: {rehearsal: {detector: {kind: synthetic}}}
decode: {threads: 3}
threads: 8
queue: {max_frames: 21, max_bytes: 22MiB}
per_agent: {frames_in_flight: 23, bytes_in_flight: 24MiB, shrink_above: 25ms, streams: 26}
limits: {message: 27MiB, pixels: 28000000, decompressed: 29MiB, detections: 30, batch_records: 31}
store: {commit_every: 32ms, keep: 33h, payloads: {path: pictures, max_bytes: 34MiB}}
"""


class Seen(Fatal):
    """Ends a start once everything was told."""


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the service and the keeper of records are made of."""
    (tmp_path / "worker.yaml").write_text(WORKER)
    seen: dict[str, Any] = {}

    def service(**values: Any) -> None:
        seen.update(values)
        raise Seen("no service today")

    made = cloud.keeping.storeroom.Storeroom

    def storeroom(store: Any, *rest: Any, **values: Any) -> Any:
        seen.update(store_config=store, keeping_limits=values["limits"])
        return made(store, *rest, **values)

    monkeypatch.setattr(cloud.worker, "Service", service)
    monkeypatch.setattr("cloud.worker.Storeroom", storeroom)
    with pytest.raises(Seen):
        cloud.worker.Worker(load_worker(tmp_path / "worker.yaml")).start()
    return seen


def test_what_one_agent_and_all_of_them_may_have_waiting_reaches_the_service(told: dict[str, Any]) -> None:
    limits: ServiceLimits = told["limits"]
    assert (limits.queue_frames, limits.queue_bytes) == (21, 22 << 20)
    assert (limits.frames_in_flight, limits.bytes_in_flight) == (23, 24 << 20)
    assert (limits.shrink_above_us, limits.streams) == (25_000, 26)


def test_what_is_judged_before_anything_is_allocated_reaches_the_service(told: dict[str, Any]) -> None:
    limits: ServiceLimits = told["limits"]
    assert (limits.message_bytes, limits.pixels) == (27 << 20, 28_000_000)
    assert (limits.decompressed_bytes, limits.detections, limits.batch_records) == (29 << 20, 30, 31)
    assert told["keeping_limits"] == limits


def test_threads_and_times_of_the_store_reach_those_who_keep_them(told: dict[str, Any]) -> None:
    assert (told["decode_threads"], told["commit_every_us"]) == (3, 32_000)
    assert told["store_config"].keep == 33 * 3_600_000_000
    assert told["store_config"].payloads.max_bytes == 34 << 20
