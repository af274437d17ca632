"""What is said and kept about a job that ended."""

from cloud.jobs import Detected, Job
from pipelines.result import AnsweredBy, Load, Record, Status, WorkerTiming
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


def far_record(job: Job, result: Result) -> Record:
    """What the store keeps of a far result; the answer that was given comes later, from the agent."""
    timing = result.timing
    return Record(
        id=job.id,
        answered_by=AnsweredBy.FAR,
        status=Status.OK,
        priority=job.head.priority,
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
