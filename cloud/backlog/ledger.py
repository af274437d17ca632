"""The books of the backlog: what is admitted and not running, and what each agent has borrowed of its window.

Not thread-safe: the backlog holds the lock. Every job that is let in leaves once, and gives its loan back once.
"""

from cloud.backlog.jobs import Job, Stage
from cloud.backlog.lane import ModelLane
from cloud.scheduling.admission import PayloadLimits, QueueState, Refusal, judge
from cloud.scheduling.credits import Credits
from protos.wire.session import RejectReason


class Ledger:
    """`frames` and `size_bytes` wait; `awaiting` are those whose bodies still cross; `admitted` counts for ever."""

    def __init__(self, *, limits: PayloadLimits, credit: Credits, max_frames: int, max_bytes: int) -> None:
        self.credit = credit
        self.frames = 0
        self.size_bytes = 0
        self.admitted = 0
        self.awaiting: dict[int, Job] = {}
        self._limits = limits
        self._max_frames = max_frames
        self._max_bytes = max_bytes

    def admit(self, job: Job, lane: ModelLane, *, draining: bool) -> Refusal | None:
        """Let the job in, awaiting its body; or why not."""
        state = QueueState(
            frames=self.frames,
            size_bytes=self.size_bytes,
            max_frames=self._max_frames,
            max_bytes=self._max_bytes,
            queue_us=0 if lane.at_rest else lane.forecast_us(job.id.agent, job.expiry_us, job.head_us),
            service_us=lane.service_us(lane.waiting),
            draining=draining,
            model_ready=lane.ready > 0,
        )
        refusal = judge(job.head, limits=self._limits, queue=state)
        if refusal:
            return refusal
        job.loan = self.credit.take(job.id.agent, job.size_bytes, job.head_us)
        if job.loan is None:
            frames, size_bytes = self.credit.in_flight(job.id.agent)
            return Refusal(
                RejectReason.OVER_CREDIT,
                f"{frames} frames and {size_bytes} bytes of this agent are in flight",
            )
        self.awaiting[id(job)] = job
        self.admitted += 1
        self.frames += 1
        self.size_bytes += job.size_bytes
        return None

    def fits_instead_of(self, leaving: Job, job: Job) -> bool:
        """Whether `job` finds room in the queue once `leaving` has left it."""
        size_bytes = self.size_bytes - leaving.size_bytes + job.size_bytes
        return self.frames <= self._max_frames and size_bytes <= self._max_bytes

    def started(self, job: Job) -> None:
        """It waits no more."""
        self.frames -= 1
        self.size_bytes -= job.size_bytes

    def ended(self, job: Job) -> None:
        """Call once, while the job still has the stage it ends in."""
        if job.stage is not Stage.RUNNING:
            self.started(job)
        self.awaiting.pop(id(job), None)
        if job.loan is not None:
            self.credit.give_back(job.loan)
