"""One row of the record store: as people and reports read it, and between records and columns."""

import json
from dataclasses import dataclass
from json.encoder import encode_basestring_ascii
from typing import Any

from cloud.store.key import KEY, id_of, key_of
from cloud.store.payloads.ref import PayloadRef
from cloud.store.sql.tables import records
from pipelines.frame import FrameId
from pipelines.result import AnsweredBy, Detections, Gap, GapReason, Record
from protos.wire.records import decode_detections, encode_detections


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRow:
    """What was given, and what far said. Far outranks near: `best` is far's if the far model ran at all.

    `answered_by`, `status`, `on_time` and `latency_us` are None until the agent's outcome has arrived.
    `late_far`: a far result exists, but another answer had been given.
    """

    id: FrameId
    answered_by: AnsweredBy | None
    status: str | None
    on_time: bool | None
    latency_us: int | None
    captured_unix_us: int | None
    age_us: int | None
    late_far: bool
    priority: str | None
    detections: Detections | None
    model: str | None
    model_sha256: str | None
    timing_us: dict[str, int]
    far_status: str | None
    far_detections: Detections | None
    far_model: str | None
    far_model_sha256: str | None
    far_timing_us: dict[str, int]
    far_received_unix_us: int | None
    source: str
    received_unix_us: int
    updated_unix_us: int
    payload: PayloadRef | None = None

    @property
    def best(self) -> Detections | None:
        return self.detections if self.far_detections is None else self.far_detections

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "agent": self.id.agent,
            "run": self.id.run.hex(),
            "stream": self.id.stream,
            "seq": self.id.seq,
            "answered_by": None if self.answered_by is None else self.answered_by.value,
            "status": self.status,
            "on_time": self.on_time,
            "latency_ms": None if self.latency_us is None else self.latency_us / 1000,
            "captured_unix_ms": None if self.captured_unix_us is None else self.captured_unix_us / 1000,
            "age_ms": None if self.age_us is None else self.age_us / 1000,
            "late_far": self.late_far,
            "priority": self.priority,
            "model": self.model,
            "model_sha256": self.model_sha256,
            "detections": None if self.detections is None else self.detections.as_rows(),
            "timing_ms": {name: us / 1000 for name, us in self.timing_us.items()},
            "far_status": self.far_status,
            "far_model": self.far_model,
            "far_model_sha256": self.far_model_sha256,
            "far_detections": None if self.far_detections is None else self.far_detections.as_rows(),
            "far_timing_ms": {name: us / 1000 for name, us in self.far_timing_us.items()},
            "best_detections": None if self.best is None else self.best.as_rows(),
            "source": self.source,
            "received_unix_ms": self.received_unix_us / 1000,
            "payload": None if self.payload is None else self.payload.as_dict(),
        }


def _key_row(identity: FrameId, now_unix_us: int) -> dict[str, Any]:
    return {
        **key_of(identity),
        "received_unix_us": now_unix_us,
        "updated_unix_us": now_unix_us,
    }


def _timing(timing_us: dict[str, int]) -> str:
    """As JSON, by name. An encoder would be set up anew for every row, which takes longer than this."""
    return f"{{{', '.join([f'{encode_basestring_ascii(name)}: {us}' for name, us in sorted(timing_us.items())])}}}"


def far_row(record: Record, now_unix_us: int) -> dict[str, Any]:
    return {
        **_key_row(record.id, now_unix_us),
        "far_status": record.status.value,
        "far_detections": None if record.detections is None else encode_detections(record.detections),
        "far_model": record.model,
        "far_model_sha256": record.model_sha256,
        "far_timing_us": _timing(record.timing_us),
        "far_received_unix_us": now_unix_us,
        "source": "live",
    }


def given_row(record: Record, now_unix_us: int) -> dict[str, Any]:
    return {
        **_key_row(record.id, now_unix_us),
        "answered_by": record.answered_by.value,
        "status": record.status.value,
        "on_time": record.on_time,
        "latency_us": record.latency_us,
        "captured_unix_us": record.captured_unix_us,
        "priority": record.priority.value,
        "model": record.model,
        "model_sha256": record.model_sha256,
        "timing_us": _timing(record.timing_us),
        "age_us": record.age_us,
        "detections": None if record.detections is None else encode_detections(record.detections),
        "late_far": record.late_far,
        "source": "backfill",
    }


def gap_row(agent: str, gap: Gap, now_unix_us: int) -> dict[str, Any]:
    return {**gap.as_dict(agent), "received_unix_us": now_unix_us}


def gap_of(found: Any) -> Gap:
    return Gap(
        run=bytes.fromhex(found.run),
        stream=found.stream,
        first=found.first,
        last=found.last,
        reason=GapReason(found.reason),
        detail=found.detail,
    )


def row_of(found: dict[str, Any], *, payload: PayloadRef | None = None) -> RecordRow:
    """From the columns of `records`; what else stands in `found` is not looked at."""
    found = {column.name: found[column.name] for column in records.columns}
    identity = id_of({name: found.pop(name) for name in KEY})
    by = found.pop("answered_by")
    return RecordRow(
        id=identity,
        answered_by=None if by is None else AnsweredBy(by),
        late_far=bool(found.pop("late_far"))
        or (found["far_status"] is not None and by is not None and by != AnsweredBy.FAR.value),
        detections=_detections(found.pop("detections")),
        far_detections=_detections(found.pop("far_detections")),
        timing_us=json.loads(found.pop("timing_us") or "{}"),
        far_timing_us=json.loads(found.pop("far_timing_us") or "{}"),
        payload=payload,
        **found,
    )


def _detections(data: bytes | None) -> Detections | None:
    return None if data is None else decode_detections(data)
