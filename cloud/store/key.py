"""What names a frame in every table: agent, run in hex, stream, seq; rows are written in its order.

Whoever locks several rows does it in that order too, so that two workers never wait for each other.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from pipelines.frame import FrameId

KEY = ("agent", "run", "stream", "seq")


def key_of(identity: FrameId) -> dict[str, Any]:
    """The columns that name a frame."""
    return {
        "agent": identity.agent,
        "run": identity.run.hex(),
        "stream": identity.stream,
        "seq": identity.seq,
    }


def id_of(found: Mapping[str, Any]) -> FrameId:
    """Of a row with the columns of `KEY`."""
    return FrameId(found["agent"], bytes.fromhex(found["run"]), found["stream"], found["seq"])


def in_order(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """By identity, so that workers that write the same rows at once wait for each other in one order."""
    return sorted(rows, key=lambda row: (row["agent"], row["run"], row["stream"], row["seq"]))
