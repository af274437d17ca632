from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Lane(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LANE_UNSPECIFIED: _ClassVar[Lane]
    LANE_LIVE: _ClassVar[Lane]
    LANE_BULK: _ClassVar[Lane]

class RejectReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REJECT_REASON_UNSPECIFIED: _ClassVar[RejectReason]
    REJECT_REASON_TOO_LATE: _ClassVar[RejectReason]
    REJECT_REASON_EXPIRED: _ClassVar[RejectReason]
    REJECT_REASON_QUEUE_FULL: _ClassVar[RejectReason]
    REJECT_REASON_OVER_CREDIT: _ClassVar[RejectReason]
    REJECT_REASON_TOO_LARGE: _ClassVar[RejectReason]
    REJECT_REASON_BAD_PAYLOAD: _ClassVar[RejectReason]
    REJECT_REASON_NO_MODEL: _ClassVar[RejectReason]
    REJECT_REASON_DRAINING: _ClassVar[RejectReason]
    REJECT_REASON_HELLO_REQUIRED: _ClassVar[RejectReason]
    REJECT_REASON_NOT_ALLOWED: _ClassVar[RejectReason]
    REJECT_REASON_UNKNOWN_KIND: _ClassVar[RejectReason]
    REJECT_REASON_VERSION: _ClassVar[RejectReason]
    REJECT_REASON_FAILED: _ClassVar[RejectReason]

class AnsweredBy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ANSWERED_BY_UNSPECIFIED: _ClassVar[AnsweredBy]
    ANSWERED_BY_NEAR: _ClassVar[AnsweredBy]
    ANSWERED_BY_FAR: _ClassVar[AnsweredBy]
    ANSWERED_BY_TRACKED: _ClassVar[AnsweredBy]
    ANSWERED_BY_MISSED: _ClassVar[AnsweredBy]

class Status(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STATUS_UNSPECIFIED: _ClassVar[Status]
    STATUS_OK: _ClassVar[Status]
    STATUS_TIMEOUT: _ClassVar[Status]
    STATUS_FAILED: _ClassVar[Status]
    STATUS_NO_MODEL: _ClassVar[Status]

class GapReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    GAP_REASON_UNSPECIFIED: _ClassVar[GapReason]
    GAP_REASON_GATED: _ClassVar[GapReason]
    GAP_REASON_SHED: _ClassVar[GapReason]
    GAP_REASON_EVICTED: _ClassVar[GapReason]
    GAP_REASON_INTERRUPTED: _ClassVar[GapReason]
LANE_UNSPECIFIED: Lane
LANE_LIVE: Lane
LANE_BULK: Lane
REJECT_REASON_UNSPECIFIED: RejectReason
REJECT_REASON_TOO_LATE: RejectReason
REJECT_REASON_EXPIRED: RejectReason
REJECT_REASON_QUEUE_FULL: RejectReason
REJECT_REASON_OVER_CREDIT: RejectReason
REJECT_REASON_TOO_LARGE: RejectReason
REJECT_REASON_BAD_PAYLOAD: RejectReason
REJECT_REASON_NO_MODEL: RejectReason
REJECT_REASON_DRAINING: RejectReason
REJECT_REASON_HELLO_REQUIRED: RejectReason
REJECT_REASON_NOT_ALLOWED: RejectReason
REJECT_REASON_UNKNOWN_KIND: RejectReason
REJECT_REASON_VERSION: RejectReason
REJECT_REASON_FAILED: RejectReason
ANSWERED_BY_UNSPECIFIED: AnsweredBy
ANSWERED_BY_NEAR: AnsweredBy
ANSWERED_BY_FAR: AnsweredBy
ANSWERED_BY_TRACKED: AnsweredBy
ANSWERED_BY_MISSED: AnsweredBy
STATUS_UNSPECIFIED: Status
STATUS_OK: Status
STATUS_TIMEOUT: Status
STATUS_FAILED: Status
STATUS_NO_MODEL: Status
GAP_REASON_UNSPECIFIED: GapReason
GAP_REASON_GATED: GapReason
GAP_REASON_SHED: GapReason
GAP_REASON_EVICTED: GapReason
GAP_REASON_INTERRUPTED: GapReason

class ToWorker(_message.Message):
    __slots__ = ("hello", "frame_head", "frame_body", "cancel", "ping", "have", "bulk_batch", "goodbye", "pong", "frame")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    FRAME_HEAD_FIELD_NUMBER: _ClassVar[int]
    FRAME_BODY_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    PING_FIELD_NUMBER: _ClassVar[int]
    HAVE_FIELD_NUMBER: _ClassVar[int]
    BULK_BATCH_FIELD_NUMBER: _ClassVar[int]
    GOODBYE_FIELD_NUMBER: _ClassVar[int]
    PONG_FIELD_NUMBER: _ClassVar[int]
    FRAME_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    frame_head: FrameHead
    frame_body: FrameBody
    cancel: Cancel
    ping: Ping
    have: Have
    bulk_batch: BulkBatch
    goodbye: Goodbye
    pong: Pong
    frame: Frame
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., frame_head: _Optional[_Union[FrameHead, _Mapping]] = ..., frame_body: _Optional[_Union[FrameBody, _Mapping]] = ..., cancel: _Optional[_Union[Cancel, _Mapping]] = ..., ping: _Optional[_Union[Ping, _Mapping]] = ..., have: _Optional[_Union[Have, _Mapping]] = ..., bulk_batch: _Optional[_Union[BulkBatch, _Mapping]] = ..., goodbye: _Optional[_Union[Goodbye, _Mapping]] = ..., pong: _Optional[_Union[Pong, _Mapping]] = ..., frame: _Optional[_Union[Frame, _Mapping]] = ...) -> None: ...

class ToAgent(_message.Message):
    __slots__ = ("welcome", "result", "reject", "ack", "pong", "need", "credit", "error", "ping")
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    REJECT_FIELD_NUMBER: _ClassVar[int]
    ACK_FIELD_NUMBER: _ClassVar[int]
    PONG_FIELD_NUMBER: _ClassVar[int]
    NEED_FIELD_NUMBER: _ClassVar[int]
    CREDIT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    PING_FIELD_NUMBER: _ClassVar[int]
    welcome: Welcome
    result: Result
    reject: Reject
    ack: Ack
    pong: Pong
    need: Need
    credit: Credit
    error: Error
    ping: Ping
    def __init__(self, welcome: _Optional[_Union[Welcome, _Mapping]] = ..., result: _Optional[_Union[Result, _Mapping]] = ..., reject: _Optional[_Union[Reject, _Mapping]] = ..., ack: _Optional[_Union[Ack, _Mapping]] = ..., pong: _Optional[_Union[Pong, _Mapping]] = ..., need: _Optional[_Union[Need, _Mapping]] = ..., credit: _Optional[_Union[Credit, _Mapping]] = ..., error: _Optional[_Union[Error, _Mapping]] = ..., ping: _Optional[_Union[Ping, _Mapping]] = ...) -> None: ...

class Stream(_message.Message):
    __slots__ = ("name", "width_px", "height_px")
    NAME_FIELD_NUMBER: _ClassVar[int]
    WIDTH_PX_FIELD_NUMBER: _ClassVar[int]
    HEIGHT_PX_FIELD_NUMBER: _ClassVar[int]
    name: str
    width_px: int
    height_px: int
    def __init__(self, name: _Optional[str] = ..., width_px: _Optional[int] = ..., height_px: _Optional[int] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("protocol_min", "protocol_max", "agent", "run", "lane", "streams", "model", "model_sha256", "software", "input_width_px", "input_height_px")
    PROTOCOL_MIN_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_MAX_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    LANE_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    MODEL_SHA256_FIELD_NUMBER: _ClassVar[int]
    SOFTWARE_FIELD_NUMBER: _ClassVar[int]
    INPUT_WIDTH_PX_FIELD_NUMBER: _ClassVar[int]
    INPUT_HEIGHT_PX_FIELD_NUMBER: _ClassVar[int]
    protocol_min: int
    protocol_max: int
    agent: str
    run: bytes
    lane: Lane
    streams: _containers.RepeatedCompositeFieldContainer[Stream]
    model: str
    model_sha256: str
    software: str
    input_width_px: int
    input_height_px: int
    def __init__(self, protocol_min: _Optional[int] = ..., protocol_max: _Optional[int] = ..., agent: _Optional[str] = ..., run: _Optional[bytes] = ..., lane: _Optional[_Union[Lane, str]] = ..., streams: _Optional[_Iterable[_Union[Stream, _Mapping]]] = ..., model: _Optional[str] = ..., model_sha256: _Optional[str] = ..., software: _Optional[str] = ..., input_width_px: _Optional[int] = ..., input_height_px: _Optional[int] = ...) -> None: ...

class Model(_message.Message):
    __slots__ = ("name", "sha256", "labels", "input_width_px", "input_height_px")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    INPUT_WIDTH_PX_FIELD_NUMBER: _ClassVar[int]
    INPUT_HEIGHT_PX_FIELD_NUMBER: _ClassVar[int]
    name: str
    sha256: str
    labels: _containers.RepeatedScalarFieldContainer[str]
    input_width_px: int
    input_height_px: int
    def __init__(self, name: _Optional[str] = ..., sha256: _Optional[str] = ..., labels: _Optional[_Iterable[str]] = ..., input_width_px: _Optional[int] = ..., input_height_px: _Optional[int] = ...) -> None: ...

class Limits(_message.Message):
    __slots__ = ("message_bytes", "picture_px", "decompressed_bytes", "batch_records", "payload_bytes")
    MESSAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    PICTURE_PX_FIELD_NUMBER: _ClassVar[int]
    DECOMPRESSED_BYTES_FIELD_NUMBER: _ClassVar[int]
    BATCH_RECORDS_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_BYTES_FIELD_NUMBER: _ClassVar[int]
    message_bytes: int
    picture_px: int
    decompressed_bytes: int
    batch_records: int
    payload_bytes: int
    def __init__(self, message_bytes: _Optional[int] = ..., picture_px: _Optional[int] = ..., decompressed_bytes: _Optional[int] = ..., batch_records: _Optional[int] = ..., payload_bytes: _Optional[int] = ...) -> None: ...

class Credit(_message.Message):
    __slots__ = ("frames", "bytes")
    FRAMES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    frames: int
    bytes: int
    def __init__(self, frames: _Optional[int] = ..., bytes: _Optional[int] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("protocol", "worker_run", "store_id", "models", "limits", "credit", "takes_frames")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    WORKER_RUN_FIELD_NUMBER: _ClassVar[int]
    STORE_ID_FIELD_NUMBER: _ClassVar[int]
    MODELS_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    CREDIT_FIELD_NUMBER: _ClassVar[int]
    TAKES_FRAMES_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    worker_run: bytes
    store_id: str
    models: _containers.RepeatedCompositeFieldContainer[Model]
    limits: Limits
    credit: Credit
    takes_frames: bool
    def __init__(self, protocol: _Optional[int] = ..., worker_run: _Optional[bytes] = ..., store_id: _Optional[str] = ..., models: _Optional[_Iterable[_Union[Model, _Mapping]]] = ..., limits: _Optional[_Union[Limits, _Mapping]] = ..., credit: _Optional[_Union[Credit, _Mapping]] = ..., takes_frames: _Optional[bool] = ...) -> None: ...

class Encoding(_message.Message):
    __slots__ = ("codec", "quality", "width_px", "height_px", "bits", "channels", "body_bytes", "decoded_bytes")
    CODEC_FIELD_NUMBER: _ClassVar[int]
    QUALITY_FIELD_NUMBER: _ClassVar[int]
    WIDTH_PX_FIELD_NUMBER: _ClassVar[int]
    HEIGHT_PX_FIELD_NUMBER: _ClassVar[int]
    BITS_FIELD_NUMBER: _ClassVar[int]
    CHANNELS_FIELD_NUMBER: _ClassVar[int]
    BODY_BYTES_FIELD_NUMBER: _ClassVar[int]
    DECODED_BYTES_FIELD_NUMBER: _ClassVar[int]
    codec: str
    quality: int
    width_px: int
    height_px: int
    bits: int
    channels: int
    body_bytes: int
    decoded_bytes: int
    def __init__(self, codec: _Optional[str] = ..., quality: _Optional[int] = ..., width_px: _Optional[int] = ..., height_px: _Optional[int] = ..., bits: _Optional[int] = ..., channels: _Optional[int] = ..., body_bytes: _Optional[int] = ..., decoded_bytes: _Optional[int] = ...) -> None: ...

class FrameHead(_message.Message):
    __slots__ = ("stream", "seq", "worker_budget_us", "sent_mono_us", "encoding", "priority", "probe", "traceparent", "source_width_px", "source_height_px")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    WORKER_BUDGET_US_FIELD_NUMBER: _ClassVar[int]
    SENT_MONO_US_FIELD_NUMBER: _ClassVar[int]
    ENCODING_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    PROBE_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    SOURCE_WIDTH_PX_FIELD_NUMBER: _ClassVar[int]
    SOURCE_HEIGHT_PX_FIELD_NUMBER: _ClassVar[int]
    stream: int
    seq: int
    worker_budget_us: int
    sent_mono_us: int
    encoding: Encoding
    priority: int
    probe: bool
    traceparent: str
    source_width_px: int
    source_height_px: int
    def __init__(self, stream: _Optional[int] = ..., seq: _Optional[int] = ..., worker_budget_us: _Optional[int] = ..., sent_mono_us: _Optional[int] = ..., encoding: _Optional[_Union[Encoding, _Mapping]] = ..., priority: _Optional[int] = ..., probe: _Optional[bool] = ..., traceparent: _Optional[str] = ..., source_width_px: _Optional[int] = ..., source_height_px: _Optional[int] = ...) -> None: ...

class FrameBody(_message.Message):
    __slots__ = ("stream", "seq", "data")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    stream: int
    seq: int
    data: bytes
    def __init__(self, stream: _Optional[int] = ..., seq: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...

class Frame(_message.Message):
    __slots__ = ("head", "body")
    HEAD_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    head: FrameHead
    body: FrameBody
    def __init__(self, head: _Optional[_Union[FrameHead, _Mapping]] = ..., body: _Optional[_Union[FrameBody, _Mapping]] = ...) -> None: ...

class Cancel(_message.Message):
    __slots__ = ("stream", "seq")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    stream: int
    seq: int
    def __init__(self, stream: _Optional[int] = ..., seq: _Optional[int] = ...) -> None: ...

class Detections(_message.Message):
    __slots__ = ("boxes", "scores", "class_ids", "labels")
    BOXES_FIELD_NUMBER: _ClassVar[int]
    SCORES_FIELD_NUMBER: _ClassVar[int]
    CLASS_IDS_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    boxes: bytes
    scores: bytes
    class_ids: bytes
    labels: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, boxes: _Optional[bytes] = ..., scores: _Optional[bytes] = ..., class_ids: _Optional[bytes] = ..., labels: _Optional[_Iterable[str]] = ...) -> None: ...

class Timing(_message.Message):
    __slots__ = ("head_mono_us", "body_mono_us", "queue_us", "decode_us", "batch_wait_us", "detect_us", "resident_us", "batch_frames")
    HEAD_MONO_US_FIELD_NUMBER: _ClassVar[int]
    BODY_MONO_US_FIELD_NUMBER: _ClassVar[int]
    QUEUE_US_FIELD_NUMBER: _ClassVar[int]
    DECODE_US_FIELD_NUMBER: _ClassVar[int]
    BATCH_WAIT_US_FIELD_NUMBER: _ClassVar[int]
    DETECT_US_FIELD_NUMBER: _ClassVar[int]
    RESIDENT_US_FIELD_NUMBER: _ClassVar[int]
    BATCH_FRAMES_FIELD_NUMBER: _ClassVar[int]
    head_mono_us: int
    body_mono_us: int
    queue_us: int
    decode_us: int
    batch_wait_us: int
    detect_us: int
    resident_us: int
    batch_frames: int
    def __init__(self, head_mono_us: _Optional[int] = ..., body_mono_us: _Optional[int] = ..., queue_us: _Optional[int] = ..., decode_us: _Optional[int] = ..., batch_wait_us: _Optional[int] = ..., detect_us: _Optional[int] = ..., resident_us: _Optional[int] = ..., batch_frames: _Optional[int] = ...) -> None: ...

class Load(_message.Message):
    __slots__ = ("queue_frames", "queue_us", "service_p50_us", "service_p95_us", "window_frames")
    QUEUE_FRAMES_FIELD_NUMBER: _ClassVar[int]
    QUEUE_US_FIELD_NUMBER: _ClassVar[int]
    SERVICE_P50_US_FIELD_NUMBER: _ClassVar[int]
    SERVICE_P95_US_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FRAMES_FIELD_NUMBER: _ClassVar[int]
    queue_frames: int
    queue_us: int
    service_p50_us: int
    service_p95_us: int
    window_frames: int
    def __init__(self, queue_frames: _Optional[int] = ..., queue_us: _Optional[int] = ..., service_p50_us: _Optional[int] = ..., service_p95_us: _Optional[int] = ..., window_frames: _Optional[int] = ...) -> None: ...

class Result(_message.Message):
    __slots__ = ("stream", "seq", "detections", "model_sha256", "timing", "load", "model")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    DETECTIONS_FIELD_NUMBER: _ClassVar[int]
    MODEL_SHA256_FIELD_NUMBER: _ClassVar[int]
    TIMING_FIELD_NUMBER: _ClassVar[int]
    LOAD_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    stream: int
    seq: int
    detections: Detections
    model_sha256: str
    timing: Timing
    load: Load
    model: str
    def __init__(self, stream: _Optional[int] = ..., seq: _Optional[int] = ..., detections: _Optional[_Union[Detections, _Mapping]] = ..., model_sha256: _Optional[str] = ..., timing: _Optional[_Union[Timing, _Mapping]] = ..., load: _Optional[_Union[Load, _Mapping]] = ..., model: _Optional[str] = ...) -> None: ...

class Reject(_message.Message):
    __slots__ = ("stream", "seq", "reason", "queue_us", "load", "text")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    QUEUE_US_FIELD_NUMBER: _ClassVar[int]
    LOAD_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    stream: int
    seq: int
    reason: RejectReason
    queue_us: int
    load: Load
    text: str
    def __init__(self, stream: _Optional[int] = ..., seq: _Optional[int] = ..., reason: _Optional[_Union[RejectReason, str]] = ..., queue_us: _Optional[int] = ..., load: _Optional[_Union[Load, _Mapping]] = ..., text: _Optional[str] = ...) -> None: ...

class Ping(_message.Message):
    __slots__ = ("nonce", "sent_mono_us")
    NONCE_FIELD_NUMBER: _ClassVar[int]
    SENT_MONO_US_FIELD_NUMBER: _ClassVar[int]
    nonce: int
    sent_mono_us: int
    def __init__(self, nonce: _Optional[int] = ..., sent_mono_us: _Optional[int] = ...) -> None: ...

class Pong(_message.Message):
    __slots__ = ("nonce", "arrived_mono_us", "resident_us", "load", "credit")
    NONCE_FIELD_NUMBER: _ClassVar[int]
    ARRIVED_MONO_US_FIELD_NUMBER: _ClassVar[int]
    RESIDENT_US_FIELD_NUMBER: _ClassVar[int]
    LOAD_FIELD_NUMBER: _ClassVar[int]
    CREDIT_FIELD_NUMBER: _ClassVar[int]
    nonce: int
    arrived_mono_us: int
    resident_us: int
    load: Load
    credit: Credit
    def __init__(self, nonce: _Optional[int] = ..., arrived_mono_us: _Optional[int] = ..., resident_us: _Optional[int] = ..., load: _Optional[_Union[Load, _Mapping]] = ..., credit: _Optional[_Union[Credit, _Mapping]] = ...) -> None: ...

class FrameId(_message.Message):
    __slots__ = ("run", "stream", "seq")
    RUN_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    run: bytes
    stream: str
    seq: int
    def __init__(self, run: _Optional[bytes] = ..., stream: _Optional[str] = ..., seq: _Optional[int] = ...) -> None: ...

class RecordRange(_message.Message):
    __slots__ = ("run", "stream", "first", "last")
    RUN_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    run: bytes
    stream: str
    first: int
    last: int
    def __init__(self, run: _Optional[bytes] = ..., stream: _Optional[str] = ..., first: _Optional[int] = ..., last: _Optional[int] = ...) -> None: ...

class Ack(_message.Message):
    __slots__ = ("records", "payloads", "batches")
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    PAYLOADS_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    records: _containers.RepeatedCompositeFieldContainer[RecordRange]
    payloads: _containers.RepeatedCompositeFieldContainer[FrameId]
    batches: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, records: _Optional[_Iterable[_Union[RecordRange, _Mapping]]] = ..., payloads: _Optional[_Iterable[_Union[FrameId, _Mapping]]] = ..., batches: _Optional[_Iterable[int]] = ...) -> None: ...

class HavePayload(_message.Message):
    __slots__ = ("id", "sha256", "size_bytes", "encoding", "source_width_px", "source_height_px", "priority", "hard")
    ID_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    ENCODING_FIELD_NUMBER: _ClassVar[int]
    SOURCE_WIDTH_PX_FIELD_NUMBER: _ClassVar[int]
    SOURCE_HEIGHT_PX_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    HARD_FIELD_NUMBER: _ClassVar[int]
    id: FrameId
    sha256: bytes
    size_bytes: int
    encoding: Encoding
    source_width_px: int
    source_height_px: int
    priority: int
    hard: bool
    def __init__(self, id: _Optional[_Union[FrameId, _Mapping]] = ..., sha256: _Optional[bytes] = ..., size_bytes: _Optional[int] = ..., encoding: _Optional[_Union[Encoding, _Mapping]] = ..., source_width_px: _Optional[int] = ..., source_height_px: _Optional[int] = ..., priority: _Optional[int] = ..., hard: _Optional[bool] = ...) -> None: ...

class Have(_message.Message):
    __slots__ = ("payloads", "have")
    PAYLOADS_FIELD_NUMBER: _ClassVar[int]
    HAVE_FIELD_NUMBER: _ClassVar[int]
    payloads: _containers.RepeatedCompositeFieldContainer[HavePayload]
    have: int
    def __init__(self, payloads: _Optional[_Iterable[_Union[HavePayload, _Mapping]]] = ..., have: _Optional[int] = ...) -> None: ...

class Want(_message.Message):
    __slots__ = ("index", "offset_bytes")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    OFFSET_BYTES_FIELD_NUMBER: _ClassVar[int]
    index: int
    offset_bytes: int
    def __init__(self, index: _Optional[int] = ..., offset_bytes: _Optional[int] = ...) -> None: ...

class Refusal(_message.Message):
    __slots__ = ("index", "text")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    index: int
    text: str
    def __init__(self, index: _Optional[int] = ..., text: _Optional[str] = ...) -> None: ...

class Need(_message.Message):
    __slots__ = ("wants", "have", "refusals")
    WANTS_FIELD_NUMBER: _ClassVar[int]
    HAVE_FIELD_NUMBER: _ClassVar[int]
    REFUSALS_FIELD_NUMBER: _ClassVar[int]
    wants: _containers.RepeatedCompositeFieldContainer[Want]
    have: int
    refusals: _containers.RepeatedCompositeFieldContainer[Refusal]
    def __init__(self, wants: _Optional[_Iterable[_Union[Want, _Mapping]]] = ..., have: _Optional[int] = ..., refusals: _Optional[_Iterable[_Union[Refusal, _Mapping]]] = ...) -> None: ...

class Record(_message.Message):
    __slots__ = ("id", "answered_by", "status", "late_far", "captured_unix_us", "age_us", "latency_us", "on_time", "priority", "detections", "model", "model_sha256", "timing_us")
    class TimingUsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    ANSWERED_BY_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    LATE_FAR_FIELD_NUMBER: _ClassVar[int]
    CAPTURED_UNIX_US_FIELD_NUMBER: _ClassVar[int]
    AGE_US_FIELD_NUMBER: _ClassVar[int]
    LATENCY_US_FIELD_NUMBER: _ClassVar[int]
    ON_TIME_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    DETECTIONS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    MODEL_SHA256_FIELD_NUMBER: _ClassVar[int]
    TIMING_US_FIELD_NUMBER: _ClassVar[int]
    id: FrameId
    answered_by: AnsweredBy
    status: Status
    late_far: bool
    captured_unix_us: int
    age_us: int
    latency_us: int
    on_time: bool
    priority: int
    detections: Detections
    model: str
    model_sha256: str
    timing_us: _containers.ScalarMap[str, int]
    def __init__(self, id: _Optional[_Union[FrameId, _Mapping]] = ..., answered_by: _Optional[_Union[AnsweredBy, str]] = ..., status: _Optional[_Union[Status, str]] = ..., late_far: _Optional[bool] = ..., captured_unix_us: _Optional[int] = ..., age_us: _Optional[int] = ..., latency_us: _Optional[int] = ..., on_time: _Optional[bool] = ..., priority: _Optional[int] = ..., detections: _Optional[_Union[Detections, _Mapping]] = ..., model: _Optional[str] = ..., model_sha256: _Optional[str] = ..., timing_us: _Optional[_Mapping[str, int]] = ...) -> None: ...

class Records(_message.Message):
    __slots__ = ("records",)
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    records: _containers.RepeatedCompositeFieldContainer[Record]
    def __init__(self, records: _Optional[_Iterable[_Union[Record, _Mapping]]] = ...) -> None: ...

class Gap(_message.Message):
    __slots__ = ("run", "stream", "first", "last", "reason", "detail")
    RUN_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    run: bytes
    stream: str
    first: int
    last: int
    reason: GapReason
    detail: str
    def __init__(self, run: _Optional[bytes] = ..., stream: _Optional[str] = ..., first: _Optional[int] = ..., last: _Optional[int] = ..., reason: _Optional[_Union[GapReason, str]] = ..., detail: _Optional[str] = ...) -> None: ...

class Chunk(_message.Message):
    __slots__ = ("index", "offset_bytes", "data", "have")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    OFFSET_BYTES_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    HAVE_FIELD_NUMBER: _ClassVar[int]
    index: int
    offset_bytes: int
    data: bytes
    have: int
    def __init__(self, index: _Optional[int] = ..., offset_bytes: _Optional[int] = ..., data: _Optional[bytes] = ..., have: _Optional[int] = ...) -> None: ...

class BulkBatch(_message.Message):
    __slots__ = ("batch", "records_zstd", "records_bytes", "chunks", "gaps")
    BATCH_FIELD_NUMBER: _ClassVar[int]
    RECORDS_ZSTD_FIELD_NUMBER: _ClassVar[int]
    RECORDS_BYTES_FIELD_NUMBER: _ClassVar[int]
    CHUNKS_FIELD_NUMBER: _ClassVar[int]
    GAPS_FIELD_NUMBER: _ClassVar[int]
    batch: int
    records_zstd: bytes
    records_bytes: int
    chunks: _containers.RepeatedCompositeFieldContainer[Chunk]
    gaps: _containers.RepeatedCompositeFieldContainer[Gap]
    def __init__(self, batch: _Optional[int] = ..., records_zstd: _Optional[bytes] = ..., records_bytes: _Optional[int] = ..., chunks: _Optional[_Iterable[_Union[Chunk, _Mapping]]] = ..., gaps: _Optional[_Iterable[_Union[Gap, _Mapping]]] = ...) -> None: ...

class Goodbye(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class Error(_message.Message):
    __slots__ = ("reason", "text", "retry", "batch", "have")
    REASON_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    RETRY_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    HAVE_FIELD_NUMBER: _ClassVar[int]
    reason: RejectReason
    text: str
    retry: bool
    batch: int
    have: int
    def __init__(self, reason: _Optional[_Union[RejectReason, str]] = ..., text: _Optional[str] = ..., retry: _Optional[bool] = ..., batch: _Optional[int] = ..., have: _Optional[int] = ...) -> None: ...

class InferRequest(_message.Message):
    __slots__ = ("data", "codec", "width_px", "height_px", "bits", "channels", "model", "model_sha256", "budget_us", "source_width_px", "source_height_px", "agent", "run", "stream", "seq")
    DATA_FIELD_NUMBER: _ClassVar[int]
    CODEC_FIELD_NUMBER: _ClassVar[int]
    WIDTH_PX_FIELD_NUMBER: _ClassVar[int]
    HEIGHT_PX_FIELD_NUMBER: _ClassVar[int]
    BITS_FIELD_NUMBER: _ClassVar[int]
    CHANNELS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    MODEL_SHA256_FIELD_NUMBER: _ClassVar[int]
    BUDGET_US_FIELD_NUMBER: _ClassVar[int]
    SOURCE_WIDTH_PX_FIELD_NUMBER: _ClassVar[int]
    SOURCE_HEIGHT_PX_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    codec: str
    width_px: int
    height_px: int
    bits: int
    channels: int
    model: str
    model_sha256: str
    budget_us: int
    source_width_px: int
    source_height_px: int
    agent: str
    run: bytes
    stream: str
    seq: int
    def __init__(self, data: _Optional[bytes] = ..., codec: _Optional[str] = ..., width_px: _Optional[int] = ..., height_px: _Optional[int] = ..., bits: _Optional[int] = ..., channels: _Optional[int] = ..., model: _Optional[str] = ..., model_sha256: _Optional[str] = ..., budget_us: _Optional[int] = ..., source_width_px: _Optional[int] = ..., source_height_px: _Optional[int] = ..., agent: _Optional[str] = ..., run: _Optional[bytes] = ..., stream: _Optional[str] = ..., seq: _Optional[int] = ...) -> None: ...

class Box(_message.Message):
    __slots__ = ("x1_px", "y1_px", "x2_px", "y2_px", "score", "class_id", "label")
    X1_PX_FIELD_NUMBER: _ClassVar[int]
    Y1_PX_FIELD_NUMBER: _ClassVar[int]
    X2_PX_FIELD_NUMBER: _ClassVar[int]
    Y2_PX_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    CLASS_ID_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    x1_px: float
    y1_px: float
    x2_px: float
    y2_px: float
    score: float
    class_id: int
    label: str
    def __init__(self, x1_px: _Optional[float] = ..., y1_px: _Optional[float] = ..., x2_px: _Optional[float] = ..., y2_px: _Optional[float] = ..., score: _Optional[float] = ..., class_id: _Optional[int] = ..., label: _Optional[str] = ...) -> None: ...

class InferReply(_message.Message):
    __slots__ = ("boxes", "model", "model_sha256", "timing", "load", "kept")
    BOXES_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    MODEL_SHA256_FIELD_NUMBER: _ClassVar[int]
    TIMING_FIELD_NUMBER: _ClassVar[int]
    LOAD_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    boxes: _containers.RepeatedCompositeFieldContainer[Box]
    model: str
    model_sha256: str
    timing: Timing
    load: Load
    kept: bool
    def __init__(self, boxes: _Optional[_Iterable[_Union[Box, _Mapping]]] = ..., model: _Optional[str] = ..., model_sha256: _Optional[str] = ..., timing: _Optional[_Union[Timing, _Mapping]] = ..., load: _Optional[_Union[Load, _Mapping]] = ..., kept: _Optional[bool] = ...) -> None: ...
