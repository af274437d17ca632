"""One offer of payloads to a worker: what of it is wanted, and how far each has gone."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from edge.outbox.payload import StoredPayload
from pipelines.frame import FrameId
from pipelines.result import PRIORITIES
from protos.wire.bulk import HavePayload


@dataclass(slots=True)
class PayloadOffer:
    """`at`: index → where its next piece begins, of those that are wanted; `begun`: indexes a piece of which has gone;
    `done`: indexes nothing is left to do for; `damaged`: index → how often it arrived so."""

    have: int
    payloads: Sequence[StoredPayload]
    answered: bool = False
    at: dict[int, int] = field(default_factory=dict)
    begun: set[int] = field(default_factory=set)
    done: set[int] = field(default_factory=set)
    damaged: dict[int, int] = field(default_factory=dict)

    @property
    def finished(self) -> bool:
        return len(self.done) == len(self.payloads)

    def settle(self, number: int) -> None:
        """Nothing is left to do for the payload of this number."""
        self.done |= {index for index, payload in enumerate(self.payloads) if payload.number == number}

    def gone_whole(self, index: int) -> bool:
        """Whether its last piece has gone."""
        return self.at.get(index, 0) >= self.payloads[index].size_bytes

    def sendable(self) -> list[int]:
        """Indexes with pieces to send, in order. Of two of the same content only the first: once it is there, the other
        one needs no piece."""
        found: list[int] = []
        contents: set[bytes] = set()
        for index, payload in enumerate(self.payloads):
            fresh = payload.shown.sha256 not in contents
            contents.add(payload.shown.sha256)
            if fresh and index in self.at and index not in self.done and not self.gone_whole(index):
                found.append(index)
        return found


def shown_to_cloud(agent: str, payload: StoredPayload) -> HavePayload:
    run, stream, seq = payload.shown.key
    return HavePayload(
        id=FrameId(agent, run, stream, seq),
        sha256=payload.shown.sha256,
        size_bytes=payload.size_bytes,
        encoding=payload.shown.encoding,
        source_size=payload.shown.source_size,
        priority=PRIORITIES[payload.shown.priority],
        hard=payload.shown.hard,
    )
