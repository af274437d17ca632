"""One picture asked about without a Hello, and its result: bytes ↔ values. What does not fit raises Rejected.

Sizes left out are 0 here too: what the picture itself says is found out by whoever serves it.
"""

from dataclasses import dataclass

from google.protobuf.message import DecodeError

from pipelines.errors import Rejected
from pipelines.frame import FrameId
from pipelines.result import Detections, Load, WorkerTiming
from protos import inference_pb2 as pb
from protos.wire import values
from protos.wire.fields import check_count

_MOST_FIELDS = 64
"""Of a request: it has fifteen, the rest is for later versions."""
_LARGEST_BUDGET_US = 3_600_000_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InferRequest:
    """`budget_us` from arrival to reply, 0 = not said. `id` None: nothing is kept. Sizes are (width_px, height_px), both
    0 = not said; `codec` may be empty, `bits` and `channels` 0, where the picture tells them."""

    data: bytes
    codec: str = ""
    size: tuple[int, int] = (0, 0)
    bits: int = 0
    channels: int = 0
    model: str = ""
    model_sha256: str = ""
    budget_us: int = 0
    source_size: tuple[int, int] = (0, 0)
    id: FrameId | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InferReply:
    """`detections` in pixels of the picture as captured. `kept`: handed to the record store."""

    detections: Detections
    model: str
    model_sha256: str
    timing: WorkerTiming
    load: Load
    kept: bool


def unpack_request(data: bytes) -> InferRequest:
    check_count(memoryview(data), most=_MOST_FIELDS)
    try:
        m = pb.InferRequest.FromString(data)
    except DecodeError as error:
        raise Rejected(f"this is no InferRequest: {error}") from error
    for what, width_px, height_px in (
        ("picture", m.width_px, m.height_px),
        ("frame as captured", m.source_width_px, m.source_height_px),
    ):
        if fault := values.source_fault(width_px, height_px):
            raise Rejected(f"size of the {what}: {fault}")
    if not 0 <= m.budget_us <= _LARGEST_BUDGET_US:
        raise Rejected(f"budget_us is {m.budget_us}; give 0 (not said) to {_LARGEST_BUDGET_US}")
    return InferRequest(
        data=m.data,
        codec=m.codec,
        size=(m.width_px, m.height_px),
        bits=m.bits,
        channels=m.channels,
        model=m.model,
        model_sha256=m.model_sha256,
        budget_us=m.budget_us,
        source_size=(m.source_width_px, m.source_height_px),
        id=_id(m),
    )


def pack_reply(reply: InferReply) -> bytes:
    seen = reply.detections
    labels = seen.labels
    boxes = (
        pb.Box(
            x1_px=x1,
            y1_px=y1,
            x2_px=x2,
            y2_px=y2,
            score=score,
            class_id=class_id,
            label=labels[class_id] if class_id < len(labels) else "",
        )
        for (x1, y1, x2, y2), score, class_id in zip(
            seen.boxes.tolist(), seen.scores.tolist(), seen.class_ids.tolist(), strict=True
        )
    )
    return pb.InferReply(
        boxes=boxes,
        model=reply.model,
        model_sha256=reply.model_sha256,
        timing=values.timing_to(reply.timing),
        load=values.load_to(reply.load),
        kept=reply.kept,
    ).SerializeToString()


def _id(m: pb.InferRequest) -> FrameId | None:
    named = {"agent": bool(m.agent), "run": bool(m.run), "stream": bool(m.stream), "seq": bool(m.seq)}
    if not any(named.values()):
        return None
    missing = [name for name, there in named.items() if not there]
    if missing:
        raise Rejected(
            f"a record needs agent, run, stream and seq, and {', '.join(missing)} is not there: give all four, or none "
            "if nothing is to be kept"
        )
    return FrameId(m.agent, values.run_bytes(m.run), m.stream, m.seq)
