"""Whether a frame is worth its body, judged on its head alone, before the body has crossed.

Sans-IO. The order of the checks is the order of blame: what the agent must change comes before what it may
retry. A frame is admitted only if `worker_budget_us >= queue + service`: work that cannot be done in
time is refused at once, with the delay it would have met, and not after it has waited.
"""

from dataclasses import dataclass

from pipelines.frame import Encoding
from protos.wire.live import FrameHead
from protos.wire.session import RejectReason

_CHANNELS, _BITS = (1, 3), (8, 16)


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadLimits:
    """Largest payload accepted: body on the wire, width × height, and bytes after decoding."""

    message_bytes: int
    pixels: int
    decompressed_bytes: int


# Not frozen: one for every head, and then it takes half the time to make.
@dataclass(slots=True, kw_only=True)
class QueueState:
    """The worker as a new frame of its agent would find it: `queue_us` until it starts, `service_us` decoding and run.
    Frames and bytes count what is admitted and not yet running."""

    frames: int
    size_bytes: int
    max_frames: int
    max_bytes: int
    queue_us: int
    service_us: int
    draining: bool = False
    model_ready: bool = True


@dataclass(frozen=True, slots=True)
class Refusal:
    reason: RejectReason
    text: str


def too_large(encoding: Encoding, limits: PayloadLimits) -> str:
    """What about the payload exceeds the limits, in words; empty if nothing does."""
    pixels = encoding.width_px * encoding.height_px
    if encoding.body_bytes > limits.message_bytes:
        return f"a body of {encoding.body_bytes} bytes exceeds limits.message ({limits.message_bytes})"
    if pixels > limits.pixels:
        return f"a picture of {pixels} pixels exceeds limits.pixels ({limits.pixels})"
    if encoding.decoded_bytes > limits.decompressed_bytes:
        return (
            f"{encoding.decoded_bytes} decoded bytes exceed limits.decompressed ({limits.decompressed_bytes})"
        )
    return ""


def judge(head: FrameHead, *, limits: PayloadLimits, queue: QueueState) -> Refusal | None:
    """None to admit; credit is judged last, by `Credits`, because taking it changes state."""
    if queue.draining:
        return Refusal(RejectReason.DRAINING, "this worker is stopping; use another or come back")
    size = too_large(head.encoding, limits)
    if size:
        return Refusal(RejectReason.TOO_LARGE, size)
    if head.encoding.body_bytes == 0 or head.encoding.width_px == 0 or head.encoding.height_px == 0:
        return Refusal(RejectReason.BAD_PAYLOAD, "a frame needs a body and a picture size")
    if head.encoding.channels not in _CHANNELS or head.encoding.bits not in _BITS:
        return Refusal(
            RejectReason.BAD_PAYLOAD,
            f"{head.encoding.channels} channels of {head.encoding.bits} bits: a picture has 1 or 3 of 8 or 16",
        )
    if not queue.model_ready:
        return Refusal(RejectReason.NO_MODEL, "the model broke and is being loaded again")
    if queue.frames + 1 > queue.max_frames:
        return Refusal(RejectReason.QUEUE_FULL, f"{queue.frames} frames wait, the most allowed")
    if queue.size_bytes + head.encoding.body_bytes > queue.max_bytes:
        return Refusal(RejectReason.QUEUE_FULL, f"{queue.size_bytes} bytes wait, no room for this frame")
    needed_us = queue.queue_us + queue.service_us
    if head.worker_budget_us <= 0 or head.worker_budget_us < needed_us:
        return Refusal(
            RejectReason.TOO_LATE,
            f"{head.worker_budget_us} µs are left, queue and service would take {needed_us} µs",
        )
    return None
