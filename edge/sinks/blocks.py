"""What the blocks of sinks share: a name, an order, a queue, TLS, the rotation of a file."""

from collections.abc import Iterator, Sequence
from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from pipelines.blocks import Block, InputFile, MisfitError, Name, Steps
from pipelines.units import Duration, Size, duration, size

MIN_QUEUE_BYTES = 64 * 1024
MIN_ROTATE_BYTES = 4096


class SinkBlock(Block):
    """Of every sink."""

    name: Name | None = Field(
        None, description="in summary, metrics, log and the file of a durable queue; left out: its kind"
    )
    order: Literal["asap", "seq"] = Field(
        "asap",
        description="asap: each answer at once; seq: the answers of a stream in the order of its frames, an early one "
        "waiting at most until its deadline",
    )


class QueueConfig(Block):
    """What may wait for a receiver that is away; beyond it the oldest goes first, counted."""

    max_bytes: Size = Field(size("16MiB"), description="of waiting answers")
    max_age: Duration = Field(
        duration("1h"), description="of a waiting answer; accumulated uptime, not wall time"
    )

    @model_validator(mode="after")
    def _holds_something(self) -> Self:
        if self.max_bytes < MIN_QUEUE_BYTES:
            raise MisfitError((("max_bytes",), "must be at least 64KiB"))
        if self.max_age < 1_000_000:
            raise MisfitError((("max_age",), "must be at least 1s"))
        return self


class TlsConfig(Block):
    """Whom to trust, and who we are. The receiver's name is always checked."""

    ca: InputFile | None = Field(
        None, description="certificates of whoever signs the receiver's; left out: the system's"
    )
    cert: InputFile | None = Field(None, description="our certificate, for a receiver that asks for one")
    key: InputFile | None = Field(None, description="its key; left out: in the file of cert")

    @model_validator(mode="after")
    def _key_has_its_certificate(self) -> Self:
        if self.key is not None and self.cert is None:
            raise MisfitError((("key",), "needs cert: beside it"))
        return self


class RotateConfig(Block):
    """When the file gets a number (answers-000001.jsonl) and a new one begins, and what becomes of the old ones."""

    max_bytes: Size | None = Field(None, description="before the file would grow beyond it")
    max_age: Duration | None = Field(
        None, description="since this run opened or began the file, at the next answer"
    )
    keep: int = Field(7, ge=1, le=10_000, description="files with a number; older ones are removed")
    compress: Literal["none", "zstd"] = Field(
        "none", description="of files with a number: zstd makes them .zst"
    )

    @model_validator(mode="after")
    def _has_a_bound(self) -> Self:
        if self.max_bytes is None and self.max_age is None:
            raise MisfitError((("max_bytes",), "say max_bytes, max_age or both: when a file is full"))
        if self.max_bytes is not None and self.max_bytes < MIN_ROTATE_BYTES:
            raise MisfitError((("max_bytes",), "must be at least 4KiB"))
        if self.max_age is not None and self.max_age < 1_000_000:
            raise MisfitError((("max_age",), "must be at least 1s"))
        return self


class QueueingSinkBlock(SinkBlock):
    """Of a sink whose receiver is elsewhere."""

    queue: QueueConfig = QueueConfig()
    durable: bool = Field(
        False, description="true: the queue is a file in state_dir and survives the process; false: memory"
    )
    batch: int = Field(32, ge=1, le=1000, description="answers on their way at once, at most")
    timeout: Duration = Field(
        duration("10s"), description="for the connection, and for the word that answers were taken"
    )
    tls: TlsConfig | None = Field(None, description="left out: the system's certificates")

    @model_validator(mode="after")
    def _has_time(self) -> Self:
        if not 100_000 <= self.timeout <= 600_000_000:
            raise MisfitError((("timeout",), "must be 100ms to 10m"))
        return self


def receiver_url(text: str, *, schemes: Sequence[str], secret: str, path: bool) -> None:
    """ValueError, in words without a secret, for what is no address of a receiver."""
    like = f"{schemes[0]}://10.0.0.5{'/answers' if path else ''}"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise ValueError(f"is no URL; write it like {like}") from None
    if "@" in parts.netloc:
        raise ValueError(f"holds a user or a password; take them out and use {secret}")
    if parts.scheme not in schemes:
        raise ValueError(f"must begin with {' or '.join(f'{s}://' for s in schemes)}")
    if not parts.hostname or port == 0 or not text.isprintable() or any(c.isspace() for c in text):
        raise ValueError(f"names no host; write it like {like}")
    if not path and (parts.path.strip("/") or parts.query or parts.fragment):
        raise ValueError(f"has a path behind the host; write it like {like}")
    if not text.isascii():
        raise ValueError("may hold ASCII only; write other characters as %XX")


def name_faults(sinks: Sequence[tuple[str, SinkBlock]]) -> Iterator[tuple[Steps, str]]:
    """`sinks` as (kind, block): names that would be two sinks', and durable queues that could change hands."""
    kinds = [kind for kind, _ in sinks]
    taken: set[str] = set()
    for position, (kind, sink) in enumerate(sinks):
        name = sink.name
        if name is not None:
            if name in taken or name in kinds[:position] + kinds[position + 1 :]:
                yield ("sinks", position, "name"), f"{name} is another sink's name already"
            taken.add(name)
        elif getattr(sink, "durable", False) and kinds.count(kind) > 1:
            words = f"there are several {kind} sinks: give this one a name, so that its queue never becomes another's"
            yield ("sinks", position, "durable"), words
