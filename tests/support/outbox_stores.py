"""Every kind of outbox store, made for tests."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from edge.outbox.bounds import Bounds
from edge.outbox.file.sqlite import SqliteOutbox
from edge.outbox.memory_outbox import MemoryOutbox
from edge.outbox.store import OutboxStore
from tests.support.outboxes import SECOND

HOUR = 3600 * SECOND
Make = Callable[[Bounds], OutboxStore]
OUTBOX_KINDS = ["memory", "sqlite"]


@contextmanager
def outbox_stores(kind: str, folder: Path) -> Iterator[Make]:
    """Makes stores of `kind` on one file, opened; all are closed at the end."""
    made: list[OutboxStore] = []

    def build(bounds: Bounds) -> OutboxStore:
        store: OutboxStore
        if kind == "memory":
            store = MemoryOutbox(bounds=bounds)
        else:
            store = SqliteOutbox(folder / "outbox.db", bounds=bounds)
        store.open(0)
        made.append(store)
        return store

    yield build
    for store in made:
        store.close(0)


def seqs(store: OutboxStore, *, limit: int = 100, max_bytes: int = 1 << 20) -> list[int]:
    return [s.key[2] for s in store.peek(limit=limit, max_bytes=max_bytes)]


def numbers(store: OutboxStore) -> dict[int, int]:
    return {s.key[2]: s.number for s in store.peek(limit=1000, max_bytes=1 << 30)}
