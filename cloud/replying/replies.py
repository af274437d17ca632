"""What is said and kept about a job that ended."""

from collections.abc import Sequence
from typing import overload

from cloud.backlog.jobs import Detected, Job
from pipelines.frame import FrameId
from pipelines.result import AnsweredBy, Load, Priority, Record, Status, WorkerTiming
from protos.wire.live import Reject, Result
from protos.wire.session import RejectReason


def result_of(job: Job, outcome: Detected, *, now_us: int, load: Load) -> Result:
    """The reply, with boxes in pixels of the frame as captured. `queue_us` = waits for a decoder and for an instance."""
    encoding = job.head.encoding
    width_px, height_px = job.source_size
    waited_us = (job.decoded_us - job.decode_us - job.body_us) + (job.started_us - job.decoded_us)
    return Result(
        stream=job.head.stream,
        seq=job.id.seq,
        detections=outcome.detections.scaled(width_px / encoding.width_px, height_px / encoding.height_px),
        model=job.model,
        model_sha256=outcome.model_sha256,
        timing=WorkerTiming(
            head_mono_us=job.head_us,
            body_mono_us=job.body_us,
            queue_us=max(0, waited_us),
            decode_us=job.decode_us,
            detect_us=outcome.detect_us,
            resident_us=now_us - job.body_us,
        ),
        load=load,
    )


def reject_of(job: Job, reason: RejectReason, text: str, load: Load) -> Reject:
    return Reject(
        stream=job.head.stream, seq=job.id.seq, reason=reason, queue_us=load.queue_us, load=load, text=text
    )


class FarRecord(Sequence[Record]):
    """What the store keeps of a far result, as its only row; the answer that was given comes later, from the agent.

    It is made by whoever looks at it first, the record store's writer: the thread that replied has other frames to
    run. It holds on to no more of the job than it needs.
    """

    __slots__ = ("_id", "_made", "_priority", "_result")

    def __init__(self, job: Job, result: Result) -> None:
        self._id = job.id
        self._priority = job.head.priority
        self._result = result
        self._made: tuple[Record, ...] = ()

    def __len__(self) -> int:
        return 1

    @overload
    def __getitem__(self, index: int) -> Record: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Record]: ...

    def __getitem__(self, index: int | slice) -> Record | Sequence[Record]:
        if not self._made:
            self._made = (_far_record(self._id, self._priority, self._result),)
        return self._made[index]


def _far_record(identity: FrameId, priority: Priority, result: Result) -> Record:
    timing = result.timing
    return Record(
        id=identity,
        answered_by=AnsweredBy.FAR,
        status=Status.OK,
        priority=priority,
        detections=result.detections,
        model=result.model,
        model_sha256=result.model_sha256,
        timing_us={
            "transfer": timing.body_mono_us - timing.head_mono_us,
            "queue": timing.queue_us,
            "decode": timing.decode_us,
            "detect": timing.detect_us,
            "resident": timing.resident_us,
        },
    )
