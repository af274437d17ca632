"""One stream as the dispatcher sees it."""

from dataclasses import dataclass

from edge.capture.slot import Slot
from pipelines.result import Priority


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPort:
    """`index` is the stream's place in Hello.streams."""

    name: str
    index: int
    slot: Slot
    priority: Priority
