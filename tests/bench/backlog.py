"""Outboxes that are full already: of records, or of pictures, neither of which can be made smaller."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from edge.identity import StateDir
from edge.outbox.file.sqlite import SqliteOutbox
from edge.outbox.memory import Held
from edge.outbox.payload import payload_entry
from edge.outbox.store import Changes
from pipelines.frame import Encoding, FrameId, new_run
from pipelines.result import AnsweredBy, Detections, Record, Status

AGENT = "rig-gateway"
STREAM = "cam"
BOXES = 120
PICTURE_BYTES = (40_000, 80_000)
AT_ONCE = 100

Batch = Callable[[bytes, int, np.random.Generator], tuple[Changes, int]]
"""From a run and the seq before the first: AT_ONCE of them, and their bytes."""


def records(run: bytes, seq: int, dice: np.random.Generator) -> tuple[Changes, int]:
    entries = []
    for number in range(seq + 1, seq + 1 + AT_ONCE):
        boxes = dice.random((BOXES, 4), np.float32) * 640
        found = Detections(boxes, dice.random(BOXES, np.float32), np.zeros(BOXES, np.uint16), ("thing",))
        record = Record(
            id=FrameId(AGENT, run, STREAM, number),
            answered_by=AnsweredBy.NEAR,
            status=Status.OK,
            detections=found,
        )
        entries.append(Held(record, 0).entry(0))
    return Changes(entries=entries), sum(len(entry.data) for entry in entries)


def pictures(run: bytes, seq: int, dice: np.random.Generator) -> tuple[Changes, int]:
    """Of 40 to 80 kB, as a camera's are at 720p."""
    payloads = []
    for number in range(seq + 1, seq + 1 + AT_ONCE):
        size_bytes = int(dice.integers(*PICTURE_BYTES))
        payloads.append(
            payload_entry(
                (run, STREAM, number),
                dice.bytes(size_bytes),
                Encoding(codec="jpeg", quality=90, width_px=1280, height_px=720, body_bytes=size_bytes),
                priority=1,
                age_us=0,
                source_size=(1280, 720),
            )
        )
    return Changes(payloads=payloads), sum(payload.bytes for payload in payloads)


def fill(path: Path, size_bytes: int, batch: Batch) -> None:
    """The outbox of the agent whose state directory is `path`, with `size_bytes` at least."""
    held = StateDir(path)
    held.identity(AGENT)
    held.close()
    store = SqliteOutbox(path / "outbox.db")
    store.open(0)
    dice = np.random.default_rng(1)
    run, seq, filled = new_run(), 0, 0
    while filled < size_bytes:
        changes, more_bytes = batch(run, seq, dice)
        store.commit(changes, 0)
        seq, filled = seq + AT_ONCE, filled + more_bytes
    store.close(0)
