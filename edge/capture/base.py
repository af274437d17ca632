"""What a source of pictures is. A source only decodes: time, pace, slots and counting are the reader's."""

from dataclasses import dataclass
from typing import Protocol

from pipelines.frame import Picture


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Size of the pictures a source gives, and how many it gives per second; 0 = not known."""

    width_px: int
    height_px: int
    fps: float


class Source(Protocol):
    """Used by one thread at a time."""

    def open(self) -> Shape:
        """Get ready for the first picture.

        Raises ConfigError when a person must change what was asked for, Retryable when a camera is not there now.
        """
        ...

    def read(self) -> Picture | None:
        """The next picture, an array of its own; None at the end. Raises Fatal when decoding broke."""
        ...

    def close(self) -> None:
        """Give everything back; twice is harmless, and so is closing what was never opened."""
        ...


class LiveSource(Source, Protocol):
    """One connection to a camera. `open` and `read` may hang in C code: whoever calls them must be able to go on
    without them. None from `read` is the end of the connection."""

    def let_go(self) -> None:
        """From any thread: nobody wants its pictures any more. `open` and `read` end soon if they can."""
        ...

    @property
    def pts_us(self) -> int | None:
        """When the camera made the last picture, on a clock of its own; None if it does not say."""
        ...
