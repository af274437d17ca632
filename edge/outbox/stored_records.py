"""The records of a store, opened. One that cannot be is noted, so that the next commit sets it aside."""

from collections.abc import Collection, Mapping

from edge.outbox.store import Key, OutboxStore
from pipelines.errors import Rejected
from pipelines.result import Record
from protos.wire import records as wire_records


class StoredRecords:
    """`unreadable` are numbers for the next commit. All may raise Retryable: the store cannot be read now."""

    def __init__(self, store: OutboxStore, *, agent: str) -> None:
        self._store = store
        self._agent = agent
        self.unreadable: set[int] = set()

    def peek(self, *, most: int, max_bytes: int, exclude: Collection[int]) -> dict[int, tuple[Record, int]]:
        """Those that should go next, by number, each with the store's uptime when it was born, in µs."""
        found: dict[int, tuple[Record, int]] = {}
        for stored in self._store.peek(limit=most, max_bytes=max_bytes, exclude=exclude):
            if (record := self._opened(stored.number, stored.data)) is not None:
                found[stored.number] = (record, stored.born_us)
        return found

    def find(self, key: Key, *, exclude: Collection[int]) -> tuple[Record, int] | None:
        """The record of `key` and when it was born; None if it is not there or among `exclude`."""
        stored = self._store.find(key)
        if stored is None or stored.number in exclude:
            return None
        record = self._opened(stored.number, stored.data)
        return None if record is None else (record, stored.born_us)

    def those(self, wanted: Mapping[int, Key], *, exclude: Collection[int]) -> dict[int, tuple[Record, int]]:
        """Of these rows those that are still there, as `peek` gives them."""
        found: dict[int, tuple[Record, int]] = {}
        for number, key in wanted.items():
            stored = self._store.find(key)
            if stored is not None and stored.number == number and number not in exclude:
                record = self._opened(number, stored.data)
                if record is not None:
                    found[number] = (record, stored.born_us)
        return found

    def _opened(self, number: int, data: bytes) -> Record | None:
        try:
            return wire_records.decode(data, self._agent)
        except Rejected:
            self.unreadable.add(number)
            return None
