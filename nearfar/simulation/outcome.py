"""What became of every frame of a run."""

from dataclasses import dataclass, field

from edge.scheduling.key import Key
from pipelines.result import AnsweredBy


@dataclass(slots=True)
class FrameEnd:
    """`by` None = shed. `small`: by the smaller near input. `rung` of a far answer, −1 otherwise. `reason`: why far
    did not answer."""

    key: Key
    captured_us: int
    by: AnsweredBy | None
    released_us: int = 0
    on_time: bool = False
    rung: int = -1
    small: bool = False
    shed: str = ""
    reason: str = ""


@dataclass(slots=True)
class Sent:
    """One frame on its way over one link. `p`: what the scheduler gave it of being on time, as it left."""

    key: Key
    at_us: int
    p: float
    probe: bool
    answer_by_us: int
    arrived_us: int | None = None


@dataclass(slots=True, kw_only=True)
class Outcome:
    """One run of one policy. `up_bytes`: everything handed to the link, heads and pings too; `carried_bytes`:
    what crossed it, retransmissions too."""

    policy: str
    ends: dict[Key, FrameEnd] = field(default_factory=dict)
    sent: list[Sent] = field(default_factory=list)
    near_us: int = 0
    encode_us: int = 0
    up_bytes: int = 0
    carried_bytes: int = 0
    late_far: int = 0
    fresh_connections: int = 0
    rejected: dict[str, int] = field(default_factory=dict)
