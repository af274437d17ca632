"""What a tracker is: it keeps small copies of pictures and carries what was said of one to a later one."""

from dataclasses import dataclass
from typing import Any, Protocol, Self

from pipelines.frame import Picture
from pipelines.result import Detections


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Base:
    """What a detector said of frame `seq`, in its pixels. `worth`: accuracy (0..1) of who said it."""

    seq: int
    detections: Detections
    worth: float
    model: str = ""
    model_sha256: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Carried:
    """`base` carried forward: `detections` in pixels of the later frame. `age_frames` counts captured frames,
    `age_us` is the time between the captures of both."""

    detections: Detections
    base: Base
    age_frames: int
    age_us: int


class Tracker(Protocol):
    """Of one stream, used by one thread. Frames come in order of seq, what is said of them in any order."""

    @classmethod
    def from_config(cls, config: Any) -> Self: ...

    def see(self, seq: int, picture: Picture, *, captured_us: int, oldest: int) -> None:
        """A frame was accepted. `oldest`: no frame before it will be asked for any more; the picture is not kept.
        Raises Rejected for a picture it cannot look at: nothing is carried to or from that frame."""
        ...

    def rebase(self, base: Base) -> None:
        """A detector said something of a frame, however late; one that is forgotten already changes nothing."""
        ...

    def carry(self, seq: int) -> Carried | None:
        """What can be said of frame `seq` from an earlier one; None: nothing young enough, or all is lost from
        sight, which is not the same as no objects."""
        ...
