"""What stands in an outbox, as lines for people and programs, by the names that `nearfar records` uses."""

from typing import Any

from edge.outbox.payload import StoredPayload
from edge.outbox.store import Stored
from pipelines.errors import Rejected
from pipelines.result import PRIORITIES, Gap, Record
from protos.wire import records as wire_records


def decoded(stored: Stored, agent: str = "") -> Record | None:
    """None for data that no version of ours wrote."""
    try:
        return wire_records.decode(stored.data, agent)
    except Rejected:
        return None


def row_line(stored: Stored, uptime_us: int) -> dict[str, Any]:
    """A record in a list: what it is, and what it costs."""
    record = decoded(stored)
    run, stream, seq = stored.key
    return {
        "run": run.hex(),
        "stream": stream,
        "seq": seq,
        "answered_by": record.answered_by.value if record else "unreadable",
        "late_far": record.late_far if record else False,
        "priority": _priority(stored.priority),
        "age_s": round((uptime_us - stored.born_us) / 1e6, 3),
        "bytes": len(stored.data),
    }


def _priority(number: int) -> str:
    """No checksum covers it where it lies: the nearest there is, as for a file that is saved."""
    return PRIORITIES[min(max(number, 0), len(PRIORITIES) - 1)].value


def payload_line(stored: StoredPayload, uptime_us: int) -> dict[str, Any]:
    """A picture in a list."""
    run, stream, seq = stored.shown.key
    encoding = stored.shown.encoding
    return {
        "run": run.hex(),
        "stream": stream,
        "seq": seq,
        "picture": encoding.codec,
        "width_px": encoding.width_px,
        "height_px": encoding.height_px,
        "hard": stored.shown.hard,
        "priority": _priority(stored.shown.priority),
        "age_s": round((uptime_us - stored.born_us) / 1e6, 3),
        "bytes": stored.size_bytes,
    }


def record_line(record: Record, age_us: int, payload: StoredPayload | None = None) -> dict[str, Any]:
    """A whole record for programs; `payload`: the picture of its frame that waits beside it."""
    return {
        "kind": "record",
        "agent": record.id.agent,
        "run": record.id.run.hex(),
        "stream": record.id.stream,
        "seq": record.id.seq,
        "answered_by": record.answered_by.value,
        "status": record.status.value,
        "on_time": record.on_time,
        "latency_ms": record.latency_us / 1000,
        "captured_unix_ms": record.captured_unix_us / 1000,
        "age_ms": age_us / 1000,
        "late_far": record.late_far,
        "priority": record.priority.value,
        "model": record.model,
        "model_sha256": record.model_sha256,
        "detections": None if record.detections is None else record.detections.as_rows(),
        "payload": None if payload is None else _payload(payload),
        "timing_ms": {name: us / 1000 for name, us in record.timing_us.items()},
    }


def _payload(stored: StoredPayload) -> dict[str, Any]:
    encoding = stored.shown.encoding
    return {
        "sha256": stored.shown.sha256.hex(),
        "codec": encoding.codec,
        "bytes": stored.size_bytes,
        "width_px": encoding.width_px,
        "height_px": encoding.height_px,
    }


def gap_line(gap: Gap, agent: str) -> dict[str, Any]:
    return {"kind": "gap", **gap.as_dict(agent)}
