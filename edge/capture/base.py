"""What a source of pictures is. A source only decodes: time, pace, slots and counting are the reader's."""

from dataclasses import dataclass
from typing import Protocol

from pipelines.frame import Picture


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Size of the pictures a source gives, and how many it gives per second."""

    width_px: int
    height_px: int
    fps: float


class Source(Protocol):
    """Used by one thread at a time."""

    def open(self) -> Shape:
        """Get ready for the first picture. Raises ConfigError when a person must change what was asked for."""
        ...

    def read(self) -> Picture | None:
        """The next picture, an array of its own; None at the end. Raises Fatal when decoding broke."""
        ...

    def close(self) -> None:
        """Give everything back; twice is harmless, and so is closing what was never opened."""
        ...
