"""An answer on its way to a receiver that may be away, as it is kept until it was taken.

Its body is the line of the other sinks with `id` before it: `agent/run/stream/seq`, the same however often it is sent, so
that a receiver can tell a repetition.
"""

import json
from dataclasses import dataclass

from edge.telemetry.frame_lines import answer_line
from pipelines.result import Answer

OVERHEAD_BYTES = 120
"""What a parcel takes in a queue beside its body."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """`number` rises within one queue; `born_us` is the queue's uptime when it came. `body` is JSON, one line."""

    number: int
    born_us: int
    id: str
    stream: str
    body: bytes

    @property
    def bytes(self) -> int:
        """What it counts for in a queue."""
        return len(self.body) + OVERHEAD_BYTES


def parcel_id(answer: Answer) -> str:
    """The identity of the answer's frame as one word."""
    return f"{answer.id.agent}/{answer.id.run.hex()}/{answer.id.stream}/{answer.id.seq}"


def packed(answer: Answer, *, number: int, born_us: int) -> Parcel:
    name = parcel_id(answer)
    line = {"id": name, **answer_line(answer)}
    body = json.dumps(line, separators=(",", ":")).encode()
    return Parcel(number=number, born_us=born_us, id=name, stream=answer.id.stream, body=body)
