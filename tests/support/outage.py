"""A long outage in virtual time: the outbox's own code and file, a clock that is moved, and what is kept of memory."""

import tracemalloc
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from edge.outbox.file.sqlite import SqliteOutbox
from pipelines.result import AnsweredBy, Priority
from tests.support.outboxes import SECOND, Desk, live_ack, record

HEALTHY_S = 10
BACKFILL_WITHIN_S = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """`lost`: answers that never came up; `grown_mb`: Python's memory at the end of the outage less that after a tenth;
    `backfilled_s`: virtual seconds from the heal until the outbox was empty."""

    answers: int
    lost: int
    twice: int
    grown_mb: float
    file_mb: float
    backfilled_s: float
    high_priority_first: bool
    file_mb_after: float

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def long_outage(folder: Path, *, minutes: int, fps: int) -> Outage:
    """Far answers, then `minutes` without a worker, then backfill until nothing is left."""
    path = folder / "outbox.db"
    desk = Desk(SqliteOutbox(path))
    desk.connect()
    came: list[int] = []
    seq = 0
    step_us = SECOND // fps
    for _ in range(HEALTHY_S * fps):
        seq += 1
        desk.keeper.captured("door", seq)
        desk.keeper.far_answered(record(seq, by=AnsweredBy.FAR), desk.now_us)
        desk.keeper.settled("door", seq)
        desk.keeper.acked_live(live_ack(seq, seq), desk.now_us)
        desk.go(step_us)
        came += [r.id.seq for r in desk.deliver()]
    desk.go(2 * SECOND)
    came += [r.id.seq for r in desk.deliver()]
    desk.disconnect()
    frames = minutes * 60 * fps
    tracemalloc.start()
    early_bytes = 0
    for number in range(frames):
        seq += 1
        priority = Priority.HIGH if seq % 50 == 0 else Priority.NORMAL
        desk.keeper.captured("door", seq)
        desk.keeper.append(record(seq, priority=priority), desk.now_us)
        desk.go(step_us)
        desk.keeper.settled("door", seq)
        desk.committed.clear()  # what the test itself notes is not the outbox's
        if number == frames // 10:
            early_bytes = tracemalloc.get_traced_memory()[0]
    late_bytes = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    desk.keeper.finish(desk.now_us)
    file_bytes = path.stat().st_size
    healed_us = desk.now_us
    desk.connect()
    first: list[bool] = []
    while not desk.keeper.stats().empty and desk.now_us < healed_us + BACKFILL_WITHIN_S * SECOND:
        desk.go(100_000)
        for sent in desk.deliver():
            came.append(sent.id.seq)
            first.append(sent.priority is Priority.HIGH)
    highs = sum(first)
    desk.store.close(desk.now_us)
    return Outage(
        answers=seq,
        lost=len(set(range(1, seq + 1)) - set(came)),
        twice=len(came) - len(set(came)),
        grown_mb=round((late_bytes - early_bytes) / 1e6, 3),
        file_mb=round(file_bytes / 1e6, 2),
        backfilled_s=round((desk.now_us - healed_us) / 1e6, 1),
        high_priority_first=all(first[:highs]),
        file_mb_after=round(path.stat().st_size / 1e6, 3),
    )
