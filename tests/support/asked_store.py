"""A store of six records, two gaps and a far answer beside a near one, as people ask it by the command line."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from cloud.store.records import RecordStore, open_store
from nearfar.cli import main as command_line
from pipelines.frame import FrameId
from pipelines.result import AnsweredBy, Detections, Gap, GapReason, Priority, Record, Status

RUN, OTHER_RUN = bytes(range(16)), bytes(16)
NOON_UNIX_US = 1_764_504_000_000_000  # 2025-11-30 12:00 UTC
SECOND = 1_000_000
LABELS = ("person", "face")
BOX = (64.0, 48.0, 128.0, 96.0)


def boxes(*found: tuple[str, float]) -> Detections:
    """Each at the same place."""
    return Detections(
        np.array([BOX] * len(found), np.float32).reshape(-1, 4),
        np.array([score for _, score in found], np.float32),
        np.array([LABELS.index(label) for label, _ in found], np.uint16),
        LABELS,
    )


def record(
    seq: int,
    by: AnsweredBy,
    detections: Detections | None,
    *,
    agent: str = "gw",
    run: bytes = RUN,
    stream: str = "door",
    priority: Priority = Priority.NORMAL,
    captured_unix_us: int | None = None,
) -> Record:
    return Record(
        id=FrameId(agent, run, stream, seq),
        answered_by=by,
        status=Status.TIMEOUT if by is AnsweredBy.MISSED else Status.OK,
        on_time=by is not AnsweredBy.MISSED,
        latency_us=40_000,
        captured_unix_us=NOON_UNIX_US + seq * SECOND if captured_unix_us is None else captured_unix_us,
        detections=detections,
        priority=priority,
        model="m",
        model_sha256="ab" * 32,
    )


@contextmanager
def asked_store(url: str) -> Iterator[RecordStore]:
    with open_store(url) as opened:
        opened.commit(
            now_unix_us=NOON_UNIX_US + 3600 * SECOND,
            given=[
                record(1, AnsweredBy.NEAR, boxes(("person", 0.9))),
                record(2, AnsweredBy.FAR, boxes(("face", 0.4))),
                record(3, AnsweredBy.MISSED, None),
                record(4, AnsweredBy.NEAR, boxes(("person", 0.8)), stream="yard"),
                record(5, AnsweredBy.NEAR, boxes(), agent="other"),
                record(6, AnsweredBy.TRACKED, boxes(("person", 0.7)), run=OTHER_RUN),
            ],
            far=[record(4, AnsweredBy.FAR, boxes(("person", 0.85), ("face", 0.6)), stream="yard")],
            gaps=[
                ("gw", Gap(run=RUN, stream="door", first=7, last=9, reason=GapReason.GATED, detail="still")),
                ("other", Gap(run=RUN, stream="door", first=1, last=4, reason=GapReason.SHED)),
            ],
        )
        yield opened


Ask = Callable[..., str]


def asking(url: str, capsys: pytest.CaptureFixture[str]) -> Ask:
    def run(*options: str, code: int = 0) -> str:
        """What the command printed: its answer, or its complaint."""
        assert command_line.run(["records", "--store", url, *options]) == code
        told = capsys.readouterr()
        return told.err if code else told.out

    return run
