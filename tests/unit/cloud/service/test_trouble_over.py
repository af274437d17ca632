"""Whatever of a worker failed and works again says so, with how often it had failed."""

from collections.abc import Callable, Generator
from unittest.mock import Mock

import numpy as np
import pytest

from cloud.backlog.decoding import DecodePool
from cloud.backlog.jobs import Failed, Job
from cloud.keeping.bulk_intake import BulkIntake
from cloud.store.payloads.store import Payload
from cloud.store.payloads.writer import PayloadWriter
from cloud.store.writer import Entry, StoreWriter
from pipelines.codecs.base import PictureLimits
from pipelines.frame import Encoding, FrameId
from pipelines.result import AnsweredBy, Record, Status
from protos.wire.live import FrameHead

ENCODING = Encoding(codec="jpeg", quality=50, width_px=32, height_px=24)
NAME = FrameId("gw", bytes(16), "door", 1)


@pytest.fixture(autouse=True)
def calm_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.log_throttle.CALM_US", 0)


class FailsTwice:
    """A store and a codec."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self) -> None:
        self.asked += 1
        if self.asked <= 2:
            raise MemoryError

    def commit(self, *_: object, **__: object) -> None:
        self()

    def decode(self, *_: object) -> np.ndarray:
        self()
        return np.zeros((24, 32, 3), np.uint8)


def codec() -> Generator[None, None, None]:
    pool = DecodePool(
        threads=0,
        codecs={"jpeg": FailsTwice()},  # type: ignore[dict-item]
        limits=PictureLimits(pixels=1 << 20, decoded_bytes=1 << 20),
        work=Mock(),
        clock_us=lambda: 0,
        failed=pytest.fail,
    )
    head = FrameHead(stream=0, seq=1, worker_budget_us=1, sent_mono_us=0, encoding=ENCODING)
    job = Job(origin=Mock(), id=NAME, head=head, source_size=(32, 24), model="m", head_us=0, expiry_us=1)
    for well in (False, False, True):
        assert isinstance(pool.decode(job), Failed) is not well
        yield


def record_store() -> Generator[None, None, None]:
    writer = StoreWriter(
        FailsTwice(),
        commit_every_us=0,
        acknowledge=lambda _: None,
        clock_us=lambda: 0,
        unix_us=lambda: 1,
    )
    writer.start()
    try:
        while True:
            record = Record(id=NAME, answered_by=AnsweredBy.FAR, status=Status.OK)
            writer.submit(Entry(far=[record]))
            assert writer.flush(5_000_000)
            yield
    finally:
        writer.halt()


def payload_store() -> Generator[None, None, None]:
    writer = PayloadWriter(FailsTwice(), acknowledge=lambda _: None, unix_us=lambda: 1)
    writer.start()
    try:
        while True:
            writer.submit(Payload(id=NAME, encoding=ENCODING, data=b"x"))
            assert writer.flush(5_000_000)
            yield
    finally:
        writer.halt()


def backfill() -> Generator[None, None, None]:
    fails, failed = FailsTwice(), Mock()
    intake: BulkIntake[str, int] = BulkIntake(lambda *_: fails(), give_way=Mock(), failed=failed)
    for batch in range(3):
        assert intake.offer("gw", batch)
    intake.start()
    intake.stop(5.0)
    assert failed.call_count == 2
    while True:
        yield


@pytest.mark.parametrize(
    ("way", "name"),
    [
        (codec, "codec jpeg"),
        (record_store, "the record store"),
        (payload_store, "the payload store"),
        (backfill, "the backfill"),
    ],
)
def test_what_works_again_says_so(
    way: Callable[[], Generator[None, None, None]], name: str, caplog: pytest.LogCaptureFixture
) -> None:
    steps = way()
    for _ in range(3):
        next(steps)
    assert [m for m in caplog.messages if "works again" in m] == [f"{name} works again, after 2 failures"]
    steps.close()
