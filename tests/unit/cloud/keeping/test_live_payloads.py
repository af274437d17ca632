"""Which live pictures are kept, from the worker's file to the folder."""

from pathlib import Path

import numpy as np
import pytest

from cloud.config import load_worker
from cloud.keeping.storeroom import Storeroom
from cloud.limits import ServiceLimits
from cloud.models.spec import ModelSpec
from cloud.service import Service
from cloud.store.records import RecordStore, open_store
from cloud.telemetry.metrics import WorkerMetrics
from pipelines.hard import why_hard
from pipelines.result import Detections, Priority
from protos.wire.live import Result
from tests.support.eventually import eventually
from tests.support.exposition import assert_well_named
from tests.support.rigs import Rig
from tests.support.workers import GatedDetector, RawCodec, clock_us, unix_us

WORKER = """\
version: 1
listen: {{zmq: {{address: "127.0.0.1:0"}}}}
models: {{m: {{detector: {{kind: synthetic}}}}}}
store: {{keep: 30d, payloads: {{path: pictures, max_bytes: 1MiB, {rule}}}}}
"""


def seen(*scores: float) -> Detections:
    count = len(scores)
    return Detections(
        np.zeros((count, 4), np.float32), np.array(scores, np.float32), np.zeros(count, np.uint16), ("a",)
    )


def test_hard_is_an_unsure_box_a_high_priority_or_a_result_after_its_time() -> None:
    def hard(*scores: float, priority: Priority = Priority.NORMAL, late: bool = False) -> bool:
        why = why_hard(given=None, far=seen(*scores), priority=priority, late=late, unsure_below=0.5)
        return bool(why)

    assert not hard()
    assert not hard(0.9, 0.5)
    assert hard(0.9, 0.4)
    assert hard(priority=Priority.HIGH)
    assert hard(0.9, late=True)


@pytest.mark.parametrize(
    ("rule", "kept"),
    [
        ("keep: all", {1, 2}),
        ("keep: none", set()),
        ("keep: hard", set()),
        ("keep: hard, unsure_below: 0.95", {1, 2}),
    ],
)
def test_the_rule_of_the_file_decides_which_pictures_are_kept(
    tmp_path: Path, rule: str, kept: set[int]
) -> None:
    (tmp_path / "worker.yaml").write_text(WORKER.format(rule=rule))
    config = load_worker(tmp_path / "worker.yaml")
    detector = GatedDetector()
    with open_store(config.store.url) as store:
        storeroom = Storeroom(
            config.store, store, limits=ServiceLimits(), codecs=(), clock_us=clock_us, unix_us=unix_us
        )
        assert storeroom.payloads is not None
        assert storeroom.writer is not None
        assert storeroom.payloads.max_bytes == 1 << 20
        service = _service(store, detector, storeroom)
        storeroom.start()
        try:
            rig = Rig(service, store, detector)
            rig.welcome()
            for seq in (1, 2):
                rig.head(seq)
                rig.body(seq, bytes([seq]) * 10)
            rig.peer.wait(Result, 2)
            eventually(lambda: len(store.identities()) == 2, what="the records")
            assert storeroom.drain(5_000_000)
        finally:
            service.stop()
            assert storeroom.stop(5.0) == []
        assert {row.id.seq for row in store.rows() if row.payload is not None} == kept
        for row in store.rows():
            if row.payload is not None:
                assert row.payload.source_size == (640, 480)
                assert storeroom.payloads.read(row.payload.sha256) == bytes([row.id.seq]) * 10
    with open_store(config.store.url, read_only=True) as reader:
        assert reader.payloads_path == str(tmp_path / "pictures" / reader.store_id[:16])


def test_what_is_kept_and_given_up_is_shown_as_metrics(tmp_path: Path) -> None:
    (tmp_path / "worker.yaml").write_text(WORKER.format(rule="keep: all"))
    config = load_worker(tmp_path / "worker.yaml")
    metrics = WorkerMetrics()
    with open_store(config.store.url) as store:
        storeroom = Storeroom(
            config.store, store, limits=ServiceLimits(), codecs=(), clock_us=clock_us, unix_us=unix_us
        )
        storeroom.show(metrics)
        assert storeroom.payloads is not None
        storeroom.payloads.counts.evicted = 3
        assert metrics.value("nearfar_worker_payloads_evicted_total") == 3
    assert_well_named(metrics)


def _service(store: RecordStore, detector: GatedDetector, storeroom: Storeroom) -> Service:
    made = Service(
        models=[ModelSpec(name="m", build=lambda: detector)],
        default_model="m",
        codecs={"raw": RawCodec()},
        store=store,
        store_id=store.store_id,
        clock_us=clock_us,
        unix_us=unix_us,
        commit_every_us=0,
        live_payloads=storeroom.live,
    )
    made.start(timer=False)
    return made


def test_pictures_that_nobody_keeps_in_bounds_any_more_are_said_at_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "worker.yaml").write_text(WORKER.format(rule="keep: all"))
    config = load_worker(tmp_path / "worker.yaml").store
    without = config.model_copy(update={"payloads": None})
    with open_store(config.url) as store:
        for described in (without, config):
            Storeroom(described, store, limits=ServiceLimits(), codecs=(), clock_us=clock_us, unix_us=unix_us)
        assert caplog.text == ""
    with open_store(config.url) as store:
        Storeroom(without, store, limits=ServiceLimits(), codecs=(), clock_us=clock_us, unix_us=unix_us)
    assert "store.payloads is left out" in caplog.text
