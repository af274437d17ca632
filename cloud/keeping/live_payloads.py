"""Which pictures of live frames are kept: none, all, or the hard ones, which are worth a person's look.

Hard is what `pipelines.hard` says of the frame, as far as the worker knows it when it has answered.
"""

from cloud.backlog.jobs import Job
from cloud.store.kinds import Keep
from cloud.store.payloads.store import Payload
from cloud.store.payloads.writer import PayloadWriter
from pipelines.hard import why_hard
from pipelines.result import Detections


class LivePayloads:
    """`offer` from a model's thread: it decides, copies and hands over."""

    def __init__(self, writer: PayloadWriter, *, keep: Keep, unsure_below: float) -> None:
        self._writer = writer
        self._keep = keep
        self._unsure_below = unsure_below

    @property
    def wants_any(self) -> bool:
        return self._keep != "none"

    def offer(self, job: Job, seen: Detections, *, now_us: int) -> None:
        """The picture of a job that was answered. `now_us`: the worker's clock, as in the job."""
        if not self.wants_any:
            return
        priority = job.head.priority
        hard = bool(
            why_hard(
                given=None,  # not known here
                far=seen,
                priority=priority,
                late=now_us > job.expiry_us,
                unsure_below=self._unsure_below,
            )
        )
        if not hard and self._keep != "all":
            return
        self._writer.submit(
            Payload(
                id=job.id,
                encoding=job.head.encoding,
                data=bytes(job.body),
                source_size=job.source_size,
                priority=priority,
                hard=hard,
            )
        )
