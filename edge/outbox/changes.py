"""What one transaction on an outbox store changes: values, without a store."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from edge.outbox.bounds import RECORD_BYTES
from edge.outbox.payload import PayloadEntry
from pipelines.result import Gap

Key = tuple[bytes, str, int]
"""(run, stream, seq): a frame's identity within one agent."""

PRIORITY_NUMBERS = (0, 1, 2)
"""Low, normal, high."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A record to keep. `data` is `protos.wire.records.encode`; `priority` 0 low … 2 high; `age_us` since capture."""

    key: Key
    priority: int
    age_us: int
    data: bytes

    @property
    def bytes(self) -> int:
        return len(self.data) + RECORD_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermark:
    """Of one run and stream: no seq above `reserved` was given to a frame, all up to `settled` are explained."""

    run: bytes
    stream: str
    reserved: int
    settled: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """One transaction. `acknowledged`, `unreadable` and `acknowledged_gaps` are numbers of rows; numbers that are
    gone already are ignored. `unreadable` rows count as set aside, `purged` ones as evicted by a person, and a gap
    explains each; payloads of purged records go with them. `ended_runs` forgets their watermarks. `*_payloads` are numbers
    too. `refused`: numbers of records that a worker can read nothing of, each with its words; they count as set aside, stay in the
    file and are explained by a gap; `again`: numbers of such, which go up once more; `forgotten`: of such that leave the file.
    `refused_gaps`: those a worker can read nothing of, which count as dropped. `room_for_bytes`: give up payloads until so much is free, however much the bounds allow: the disk does not."""

    entries: Sequence[Entry] = ()
    acknowledged: Collection[int] = ()
    unreadable: Collection[int] = ()
    purged: Collection[int] = ()
    refused: Mapping[int, str] = field(default_factory=dict)
    again: Collection[int] = ()
    forgotten: Collection[int] = ()
    gaps: Sequence[Gap] = ()
    acknowledged_gaps: Collection[int] = ()
    refused_gaps: Collection[int] = ()
    marks: Sequence[Watermark] = ()
    ended_runs: Collection[bytes] = ()
    payloads: Sequence[PayloadEntry] = ()
    acknowledged_payloads: Collection[int] = ()
    refused_payloads: Collection[int] = ()
    unreadable_payloads: Collection[int] = ()
    purged_payloads: Collection[int] = ()
    room_for_bytes: int = 0

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in self.__slots__)

    @property
    def payloads_gone(self) -> list[tuple[int, str]]:
        """Numbers of payloads that leave, each with what it counts as."""
        gone = {
            "payloads_acked": self.acknowledged_payloads,
            "payloads_refused": self.refused_payloads,
            "payloads_set_aside": self.unreadable_payloads,
            "payloads_evicted_purged": self.purged_payloads,
        }
        return [(number, why) for why, numbers in gone.items() for number in numbers]
