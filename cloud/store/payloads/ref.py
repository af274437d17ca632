"""What the record store knows of a frame's picture: its content hash, how it was encoded, and whether it is kept."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cloud.store.key import key_of
from pipelines.frame import Encoding, FrameId

COLUMNS = (
    "sha256",
    "codec",
    "quality",
    "width_px",
    "height_px",
    "bits",
    "channels",
    "size_bytes",
    "source_width_px",
    "source_height_px",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadRef:
    """`sha256`: 64 hex digits of the encoded bytes. `source_size`: (width_px, height_px) of the frame as captured, the
    pixels its boxes are in. `kept`: still in the payload folder, as far as the store knows: evicted ones are not."""

    sha256: str
    encoding: Encoding
    source_size: tuple[int, int]
    kept: bool = True

    def as_row(self, identity: FrameId) -> dict[str, Any]:
        e = self.encoding
        return {
            **key_of(identity),
            "sha256": self.sha256,
            "codec": e.codec,
            "quality": e.quality,
            "width_px": e.width_px,
            "height_px": e.height_px,
            "bits": e.bits,
            "channels": e.channels,
            "size_bytes": e.body_bytes,
            "source_width_px": self.source_size[0],
            "source_height_px": self.source_size[1],
        }

    @classmethod
    def of(cls, found: Mapping[str, Any], *, kept: bool) -> "PayloadRef":
        """From `COLUMNS` of a row."""
        encoding = Encoding(
            codec=found["codec"],
            quality=found["quality"],
            width_px=found["width_px"],
            height_px=found["height_px"],
            bits=found["bits"],
            channels=found["channels"],
            body_bytes=found["size_bytes"],
        )
        own = (found["source_width_px"], found["source_height_px"])
        source = own if all(own) else (encoding.width_px, encoding.height_px)
        return cls(sha256=found["sha256"], encoding=encoding, source_size=source, kept=kept)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "sha256": self.sha256,
            "codec": self.encoding.codec,
            "bytes": self.encoding.body_bytes,
            "width_px": self.encoding.width_px,
            "height_px": self.encoding.height_px,
            "kept": self.kept,
        }
