"""One frame between its acceptance and its answer, as the scheduler knows it."""

from dataclasses import dataclass
from enum import Enum

from edge.scheduling.near_timeline import Key
from edge.scheduling.rung import RungCost
from pipelines.result import Status

GIVE_UP_BEFORE_US = 1_000


class Far(Enum):
    """Where the far way of a frame stands. Only ENCODING and SENT may still bring an answer."""

    NONE = "none"
    ENCODING = "encoding"
    SENT = "sent"
    OVER = "over"


class Near(Enum):
    NONE = "none"  # nothing reserved, nothing run
    RESERVED = "reserved"
    RUNNING = "running"
    HELD = "held"  # a good result waits: far may still answer better
    OVER = "over"


@dataclass(slots=True, kw_only=True, eq=False)
class Job:
    """`answer_by_us` = deadline − margin. `eager`: near may start before its slot, far is not coming."""

    key: Key
    captured_us: int
    deadline_us: int
    answer_by_us: int
    cost: RungCost
    accepted_us: int
    far: Far = Far.NONE
    near: Near = Near.NONE
    near_status: Status = Status.TIMEOUT
    eager: bool = False
    probe: bool = False
    connection: int = 0
    size_bytes: int = 0
    sent_us: int = 0
    nominal_us: float = 0.0
    overdue: bool = False
    far_reason: str = ""  # why far did not answer
    given: bool = False
    release_by_us: int | None = None  # held answer: out at the latest then
    abandoned: bool = False  # the link went over budget: near need not wait for far

    @property
    def give_up_us(self) -> int:
        """When a frame without an answer is missed: not at `answer_by`, for until the deadline an answer that
        comes after all is still on time, and a miss cannot be."""
        return max(self.answer_by_us, self.deadline_us - GIVE_UP_BEFORE_US)

    @property
    def far_open(self) -> bool:
        return self.far in (Far.ENCODING, Far.SENT)
