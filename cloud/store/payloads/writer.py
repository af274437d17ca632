"""Puts pictures into the payload store on a thread of its own: no frame and no record waits for them.

What is acknowledged is on the disk. Bounded by bytes: what finds no room is dropped; a backfilled one stays with its
agent, a live one was a copy. What still waits at the end is counted as dropped.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from cloud.store.group_writer import GroupWriter
from cloud.store.payloads.store import Payload
from pipelines.errors import Fatal, Rejected, Retryable
from pipelines.log_throttle import LogThrottle

log = logging.getLogger(__name__)

_GROUP = 16


class PayloadStore(Protocol):
    """What the writer needs of `Payloads`."""

    def commit(self, arrivals: Sequence[Payload], *, now_unix_us: int) -> None: ...


@dataclass(frozen=True, slots=True)
class Arrival:
    """`to`: whom to tell once it is kept, as the submitter knows it; None: nobody waits for word."""

    payload: Payload
    to: object = None


class PayloadWriter(GroupWriter[Arrival]):
    """`submit` from any thread, never blocks. `acknowledge` gets what is durably kept and has somebody to tell.
    `dropped` and `refused` (never to be kept) count payloads."""

    def __init__(
        self,
        store: PayloadStore,
        *,
        acknowledge: Callable[[Sequence[Arrival]], None],
        unix_us: Callable[[], int],
        max_pending_bytes: int = 64 << 20,
    ) -> None:
        def tell(kept: Sequence[Arrival]) -> None:
            if told := [arrival for arrival in kept if arrival.to is not None]:
                acknowledge(told)

        super().__init__(
            name="nearfar-payloads",
            what="the payload store",
            meanwhile="pictures wait, answers and records go on",
            weigh=lambda arrival: len(arrival.payload.data),
            count=lambda _: 1,
            most=max_pending_bytes,
            at_once=_GROUP,
            acknowledge=tell,
            passing=(Retryable, Fatal),  # a store that cannot be read blames no picture
        )
        self._store = store
        self._unix_us = unix_us
        self._trouble = LogThrottle(log)
        self._give_way: Callable[[], None] = lambda: None
        self.refused = 0

    def give_way_to(self, frames: Callable[[], None]) -> None:
        """Call `frames` before every group; it returns when they leave room, and within a time of its own. Before
        `start`."""
        self._give_way = frames

    def submit(self, payload: Payload, to: object = None) -> bool:
        """False when it is dropped because too much waits already."""
        return self._put(Arrival(payload, to))

    # -- inside -------------------------------------------------------------------------------------------

    def _take(self, last_us: int) -> list[Arrival]:
        group = super()._take(last_us)
        if group:
            self._give_way()
        return group

    def _commit(self, group: Sequence[Arrival]) -> None:
        self._store.commit([arrival.payload for arrival in group], now_unix_us=self._unix_us())
        self._trouble.worked("the payload store")

    def _refused(self, item: Arrival, error: Exception) -> list[Arrival]:
        self.refused += 1
        unexpected = None if isinstance(error, Rejected) else error
        words = f"cannot keep the payload of {item.payload.id}: {error}"
        self._trouble.failed("the payload store", words, kind=type(error).__name__, error=unexpected)
        return []
