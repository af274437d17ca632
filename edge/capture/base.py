"""What a source of pictures is. A source only decodes: time, pace, slots and counting are the reader's."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

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


@runtime_checkable
class Skipping(Protocol):
    """A source that skips what is no whole picture."""

    @property
    def skipped(self) -> int:
        """How much it has skipped since it was opened; from any thread."""
        ...


def skipped_words(parts: int) -> str:
    """What is wrong with a camera that sent `parts` that were no whole pictures; empty for none."""
    if not parts:
        return ""
    return f"{parts} {'part' if parts == 1 else 'parts'} came, none was a whole JPEG picture"


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
