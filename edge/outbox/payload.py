"""A frame's encoded picture as the outbox keeps it: the part of a frame that may be dropped before its record.

It has a number of its own (never given twice), the priority and age of its frame, and the SHA-256 it had when it was
made. Looking never loads the bytes: they are read in pieces.
"""

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Protocol

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
