"""What the dispatcher holds of one accepted frame until its answer is out."""

from dataclasses import dataclass, field

from edge.archive.rules import Verdict
from edge.flow.track_runner import TrackRun
from edge.near.runner import NearRun
from edge.scheduling.actions import Give
from pipelines.frame import Encoding, Frame
from pipelines.result import Priority
from protos.wire.live import Result


@dataclass(slots=True, kw_only=True, eq=False)
class Pending:
    """Times in µs of the gateway's monotonic clock, 0 = has not happened. `priority` is that of the moment it was
    accepted; `rung` the one its payload was ordered at last, an index into the ladder, None = not ordered; `sent_over`
    says over which links it went, and when. `recorded`: the outbox was given its record,
    `recorded_in_time`: before the deadline; `track_ordered`: the tracker
    was asked, `track` what it said; `verdict`: what the uplink rules said of it, once they were asked."""

    frame: Frame
    deadline_us: int
    accepted_us: int
    priority: Priority
    rung: int | None = None
    payload: bytes | None = None
    encoding: Encoding | None = None
    encode_us: int = 0
    p_on_time: float | None = None  # as it was given when it left for far; None = it did not
    near_due_us: int = 0
    near: NearRun | None = None
    far: Result | None = None
    far_arrived_us: int = 0
    give: Give | None = None
    given_us: int = 0
    recorded: bool = False
    recorded_in_time: bool = False
    track_ordered: bool = False
    track: TrackRun | None = None
    verdict: Verdict | None = None
    sent_over: dict[str, int] = field(default_factory=dict)

    @property
    def sent_us(self) -> int:
        """When it left first, 0 = it did not."""
        return min(self.sent_over.values(), default=0)
