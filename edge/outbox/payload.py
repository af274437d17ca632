"""A frame's encoded picture as the outbox keeps it: the part of a frame that may be dropped before its record.

It has a number of its own (never given twice), the priority and age of its frame, and the SHA-256 it had when it was
made. Looking never loads the bytes: they are read in pieces.
"""

import hashlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from edge.outbox.bounds import Tally
from pipelines.frame import Encoding

Key = tuple[bytes, str, int]
"""(run, stream, seq): a frame's identity within one agent."""

PAYLOAD_BYTES = 256
"""What a payload takes beside its data: its columns, its places in indexes, half a page of its last part."""

MOST_PAYLOAD_BYTES = 64 << 20
"""A larger one is not kept: no worker takes it, and it would displace hundreds of others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """How a payload was made and what it is worth. `sha256`: 32 bytes; `source_size`: (width_px, height_px) of the frame
    as captured; `hard`: a rule found it worth a look; `priority` 0 low … 2 high."""

    key: Key
    priority: int
    sha256: bytes
    encoding: Encoding
    source_size: tuple[int, int] = (0, 0)
    hard: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadEntry:
    """A payload to keep. `age_us` since capture."""

    shown: Shown
    age_us: int
    data: bytes = field(repr=False)

    @property
    def bytes(self) -> int:
        return len(self.data) + PAYLOAD_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPayload:
    """A payload that is kept. `born_us` is the store's uptime at its capture."""

    number: int
    shown: Shown
    born_us: int
    size_bytes: int

    @property
    def bytes(self) -> int:
        return self.size_bytes + PAYLOAD_BYTES


def payload_entry(
    key: Key,
    data: bytes,
    encoding: Encoding,
    *,
    priority: int,
    age_us: int,
    source_size: tuple[int, int] = (0, 0),
    hard: bool = False,
) -> PayloadEntry:
    """With its content hash, computed here."""
    shown = Shown(
        key=key,
        priority=priority,
        sha256=hashlib.sha256(data).digest(),
        encoding=encoding,
        source_size=source_size,
        hard=hard,
    )
    return PayloadEntry(shown=shown, age_us=age_us, data=data)


class Payloads(Protocol):
    """What an outbox store shows of its payloads. Both raise Retryable as the store does."""

    def payloads(self, *, limit: int, exclude: Collection[int] = ()) -> Sequence[StoredPayload]:
        """Those that should go next, without their data: highest priority, then oldest."""
        ...

    def read_payload(self, number: int, *, offset_bytes: int, size_bytes: int) -> bytes | None:
        """A piece of one, shorter or empty at its end; None when it is no longer here."""
        ...


class MemoryPayloads:
    """The payload half of a `MemoryOutbox`: the same promises as the table's. `fail` makes the next calls raise what it
    holds, as a full disk would."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._payloads_kept: dict[Key, tuple[StoredPayload, bytes]] = {}
        self.fail: Exception | None = None

    def payloads(self, *, limit: int, exclude: Collection[int] = ()) -> Sequence[StoredPayload]:
        self._check()
        ordered = self._ordered(lambda s: (-s.shown.priority, s.born_us, s.number))
        return [s for s in ordered if s.number not in exclude][:limit]

    def read_payload(self, number: int, *, offset_bytes: int, size_bytes: int) -> bytes | None:
        self._check()
        for stored, data in self._payloads_kept.values():
            if stored.number == number:
                return data[offset_bytes : offset_bytes + size_bytes]
        return None

    def _check(self) -> None:
        if self.fail is not None:
            raise self.fail

    def _put_payload(self, entry: PayloadEntry, uptime_us: int) -> None:
        self._tally.add("payloads_committed")
        if entry.shown.key in self._payloads_kept:
            self._drop_payload(entry.shown.key, "payloads_acked")  # the newer one stands for both
        stored = StoredPayload(
            number=self._tally.next_number(),
            shown=entry.shown,
            born_us=uptime_us - entry.age_us,
            size_bytes=len(entry.data),
        )
        self._payloads_kept[entry.shown.key] = (stored, entry.data)
        self._tally.add("bytes", stored.bytes)
        self._tally.add("payload_bytes", stored.bytes)

    def _remove_payload(self, number: int, why: str) -> None:
        for key, (stored, _) in self._payloads_kept.items():
            if stored.number == number:
                self._drop_payload(key, why)
                return

    def _remove_payload_of(self, key: Key, why: str) -> None:
        if key in self._payloads_kept:
            self._drop_payload(key, why)

    def _evict_payloads_older_than(self, born_us: int) -> None:
        for key, (stored, _) in list(self._payloads_kept.items()):
            if stored.born_us < born_us:
                self._drop_payload(key, "payloads_evicted_age")

    def _evict_payloads(self, priorities: Sequence[int], wanted: Callable[[], bool]) -> None:
        """The lowest priority first, the oldest of it first, while `wanted`."""
        for stored in self._ordered(lambda s: (s.shown.priority, s.born_us, s.number)):
            if stored.shown.priority in priorities and wanted():
                self._drop_payload(stored.shown.key, "payloads_evicted_bytes")

    def _make_room(self, size_bytes: int) -> None:
        until_bytes = self._tally.get("payload_bytes") - size_bytes
        self._evict_payloads((0, 1, 2), lambda: self._tally.get("payload_bytes") > until_bytes)

    def _ordered(self, order: Callable[[StoredPayload], tuple[int, int, int]]) -> list[StoredPayload]:
        return sorted((stored for stored, _ in self._payloads_kept.values()), key=order)

    def _drop_payload(self, key: Key, why: str) -> None:
        stored, _ = self._payloads_kept.pop(key)
        self._tally.add("bytes", -stored.bytes)
        self._tally.add("payload_bytes", -stored.bytes)
        self._tally.add(why)
