"""Room on a full disk: what the cloud has goes first, then payloads for records. Removing a row is written too, so it is
done a few rows at a time."""

from collections.abc import Callable
from contextlib import suppress

from edge.outbox.store import Changes, OutboxStore
from pipelines.errors import Retryable

ROOM_BYTES = 1 << 20  # of payloads that go at once for records on a full disk: less would not shrink the file


def make_room(
    store: OutboxStore,
    changes: Changes | None,
    *,
    acknowledged: set[int],
    payloads_acknowledged: set[int],
    payloads_refused: set[int],
    most: int,
    now_us: int,
) -> None:
    """For `changes` that `store` had no room for. The sets are numbers of rows that the cloud has or never takes; what
    is removed leaves them. `most` rows go in one transaction."""
    kinds: tuple[tuple[set[int], Callable[[list[int]], Changes]], ...] = (
        (acknowledged, lambda piece: Changes(acknowledged=piece)),
        (payloads_acknowledged, lambda piece: Changes(acknowledged_payloads=piece)),
        (payloads_refused, lambda piece: Changes(refused_payloads=piece)),
    )
    with suppress(Retryable):  # the store has said why it takes nothing
        for known, leaving in kinds:
            while piece := sorted(known)[:most]:
                store.commit(leaving(piece), now_us)
                known.difference_update(piece)
                store.tidy()  # the log of what was removed needs the room that this gives back
        if changes is not None and changes.entries:
            room_bytes = max(ROOM_BYTES, sum(entry.bytes for entry in changes.entries))
            store.commit(Changes(room_for_bytes=room_bytes), now_us)
