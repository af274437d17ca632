"""One frame between its acceptance and its answer, as the scheduler knows it."""

from dataclasses import dataclass, field
from enum import Enum

from edge.scheduling.far.forecast import Nominal
from edge.scheduling.key import Key
from edge.scheduling.ladder_cost import LadderCost
from pipelines.result import AnsweredBy, Priority, Status

GIVE_UP_BEFORE_US = 1_000
FORGET_US = 2_000_000
"""So long after it was sent the far result of an answered frame is still waited for."""
LIKELY_P = 0.25
"""From this chance of a far answer in time on, a near answer is held for it to the last moment."""
SURE_P = 0.99
"""From this one on, a near run that waits is most likely saved: none of the link's last frames would have failed."""


class Near(Enum):
    NONE = "none"  # nothing reserved, nothing run
    RESERVED = "reserved"
    RUNNING = "running"
    HELD = "held"  # a good result waits: far may still answer better
    OVER = "over"


NONE, RESERVED, RUNNING, HELD, OVER = Near
"""To look a member up on its class takes four times as long as this, and a frame asks dozens of times."""


@dataclass(slots=True, kw_only=True, eq=False)
class Flight:
    """A frame on its way over one link, from the decision on; `sent_us` None while it is being encoded.

    `probe`: it asks whether the link is back; `forced`: it is sent to learn, whatever it is worth.
    `ahead_bytes` were out before it. `hopeless`: the link went over budget, near need not wait for it.
    """

    link: str
    size_bytes: int
    probe: bool = False
    forced: bool = False
    connection: int = 0
    sent_us: int | None = None
    ahead_bytes: int = 0
    nominal: Nominal = Nominal(0.0)
    p: float = 0.0  # of being on time, as it left
    overdue: bool = False
    vanished: bool = False
    hopeless: bool = False


@dataclass(slots=True, kw_only=True, eq=False)
class Job:
    """`answer_by_us` = deadline − margin. `eager`: near may start before its slot, far is not coming.

    A job stays until its answer is out, near has let go of it and no flight is waited for any more.
    """

    key: Key
    captured_us: int
    deadline_us: int
    answer_by_us: int
    accepted_us: int
    priority: Priority
    cost: LadderCost
    flights: dict[str, Flight] = field(default_factory=dict)
    rung: int = 0
    size_bytes: int = 0  # of the payload once encoded
    near: Near = NONE
    near_small: bool = False
    near_again: bool = False  # its full run was stopped to make room for a small one
    near_trial: bool = False  # at the full input although its guard does not fit: is near quick again?
    near_status: Status = Status.TIMEOUT
    near_confidence: float | None = None
    eager: bool = False
    tracked: bool = False  # the last answer was ordered to be carried forward to it
    far_reason: str = ""  # why far did not answer
    given: AnsweredBy | None = None
    release_by_us: int | None = None  # held answer: out at the latest then

    give_up_us: int = field(init=False)
    """When a frame without an answer is missed: not at `answer_by`, for until the deadline an answer that
    comes after all is still on time, and a miss cannot be."""

    def __post_init__(self) -> None:
        self.give_up_us = max(self.answer_by_us, self.deadline_us - GIVE_UP_BEFORE_US)

    @property
    def far_open(self) -> bool:
        """Whether a far answer may still come, however late."""
        return bool(self.flights)

    @property
    def why_not_near(self) -> str:
        """Why near has given nothing, in words; only of a frame that nobody can answer in time."""
        match self.near:
            case Near.NONE:
                return "no time for near"
            case Near.RESERVED:
                return "near did not get to it"
            case Near.OVER if self.near_status is Status.FAILED:
                return "near failed"
            case _:
                return "near not done in time"

    def out_by_us(self, now_us: int, *, commit_us: int) -> int:
        """Until when an answer given now waits for its commit: never beyond the deadline, unless it is late already."""
        if now_us < self.answer_by_us:
            return self.answer_by_us
        usual_us = now_us + commit_us
        return usual_us if now_us >= self.deadline_us else min(usual_us, self.deadline_us)

    @property
    def far_hoped(self) -> bool:
        """Whether a far answer is worth holding a near one back for."""
        for flight in self.flights.values():  # noqa: SIM110 - as a generator it takes three times as long
            if not flight.hopeless:
                return True
        return False

    def far_in_time(self, least_p: float) -> bool:
        """Whether far has at least this chance to answer in time."""
        for flight in self.flights.values():  # noqa: SIM110 - as above
            if flight.p >= least_p and not flight.hopeless:
                return True
        return False

    @property
    def forget_us(self) -> int | None:
        """When the oldest far result is no longer waited for, once the frame was answered; None = nothing is out."""
        sent_us = [flight.sent_us for flight in self.flights.values() if flight.sent_us is not None]
        return min(sent_us) + FORGET_US if sent_us else None

    @property
    def encoding(self) -> bool:
        for flight in self.flights.values():  # noqa: SIM110 - as above
            if flight.sent_us is None:
                return True
        return False
