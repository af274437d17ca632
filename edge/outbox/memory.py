"""What the outbox keeps in memory for a moment: records to commit, far answers and their outcomes.

Everything has its time: a far answer waits for the worker's acknowledgement, an outcome for its batch, a record
for the next commit. Nothing leaves but by being committed, acknowledged, or dropped and counted by the caller.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from edge.outbox.store import Entry, Key
from pipelines.result import Priority, Record
from protos.wire import records as wire_records
from protos.wire.bulk import RecordRange

PRIORITY_NUMBERS = {Priority.LOW: 0, Priority.NORMAL: 1, Priority.HIGH: 2}


def key_of(record: Record) -> Key:
    return (record.id.run, record.id.stream, record.id.seq)


@dataclass(slots=True)
class Held:
    """A record and when it came; `announce`: someone waits to hear that it is committed."""

    record: Record
    at_us: int
    announce: bool = False

    def age_us(self, now_us: int) -> int:
        """Since capture: the record's own age when it came, and the time it was held."""
        return max(self.record.age_us, self.record.latency_us) + now_us - self.at_us

    def entry(self, now_us: int) -> Entry:
        return Entry(
            key=key_of(self.record),
            priority=PRIORITY_NUMBERS[self.record.priority],
            age_us=self.age_us(now_us),
            data=wire_records.encode(self.record),
        )


class HeldRecords:
    """Records by identity, oldest first."""

    def __init__(self) -> None:
        self._held: dict[Key, Held] = {}

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, key: Key) -> bool:
        return key in self._held

    def put(self, held: Held) -> None:
        self._held[key_of(held.record)] = held

    def get(self, key: Key) -> Held | None:
        return self._held.get(key)

    def pop(self, key: Key) -> Held | None:
        return self._held.pop(key, None)

    def drop_if_same(self, key: Key, record: Record) -> bool:
        """Forget `record`, unless another version took its place since."""
        held = self._held.get(key)
        if held is None or held.record is not record:
            return False
        del self._held[key]
        return True

    def oldest(self, limit: int) -> list[Held]:
        return [held for _, held in zip(range(limit), self._held.values(), strict=False)]

    def items(self) -> Iterator[tuple[Key, Held]]:
        return iter(list(self._held.items()))

    def older_than(self, at_us: int) -> list[Held]:
        """Those that came at or before `at_us`."""
        found: list[Held] = []
        for held in self._held.values():
            if held.at_us > at_us:
                break
            found.append(held)
        return found

    def oldest_us(self) -> int | None:
        for held in self._held.values():
            return held.at_us
        return None

    def pop_excess(self, most: int) -> list[Held]:
        """Take out the lowest priority, of it the oldest, until at most `most` are left."""
        found: list[Held] = []
        while len(self._held) > most:
            found.append(
                self._held.pop(min(self._held, key=lambda k: PRIORITY_NUMBERS[self._held[k].record.priority]))
            )
        return found

    def pop_ranges(self, ranges: Iterable[RecordRange]) -> list[Held]:
        """Take out whatever lies in `ranges`."""
        found: list[Held] = []
        for r in ranges:
            if r.last - r.first < len(self._held):
                keys = [(r.run, r.stream, seq) for seq in range(r.first, r.last + 1)]
            else:  # a range may be far longer than what is held
                keys = [
                    k for k in self._held if k[0] == r.run and k[1] == r.stream and r.first <= k[2] <= r.last
                ]
            found += [held for key in keys if (held := self._held.pop(key, None)) is not None]
        return found


class Pools:
    """`held` goes with the next commit, `far` waits for the worker's store, `outcomes` for a batch."""

    def __init__(self, *, grace_us: int, outcome_us: int) -> None:
        self._grace_us = grace_us
        self._outcome_us = outcome_us
        self.held = HeldRecords()
        self.far = HeldRecords()
        self.outcomes = HeldRecords()

    def keep(self, key: Key) -> bool:
        """Whether the frame's record is still only here."""
        return key in self.held or key in self.far

    def far_acked(self, ranges: Iterable[RecordRange], now_us: int) -> list[Key]:
        """The worker has the boxes: what is left to tell is who answered, how late and whether on time."""
        keys: list[Key] = []
        for held in self.far.pop_ranges(ranges):
            outcome = replace(held.record, detections=None, age_us=held.age_us(now_us))
            self.outcomes.put(Held(outcome, now_us))
            keys.append(key_of(outcome))
        return keys

    def expire(self, now_us: int, *, carried: Callable[[Key], bool]) -> None:
        """Far answers without an acknowledgement, and outcomes that could not go, are to be committed."""
        for held in self.far.older_than(now_us - self._grace_us):
            self._hold(self.far, held)
        for held in self.outcomes.older_than(now_us - self._outcome_us):
            if not carried(key_of(held.record)):
                self._hold(self.outcomes, held)

    def hold_all(self) -> None:
        for pool in (self.far, self.outcomes):
            for held in pool.oldest(len(pool)):
                self._hold(pool, held)

    def due_us(self, *, carried: Callable[[Key], bool]) -> int | None:
        """When `expire` will next have something to do."""
        due: list[int] = []
        oldest_us = self.far.oldest_us()
        if oldest_us is not None:
            due.append(oldest_us + self._grace_us)
        waiting = (held.at_us for key, held in self.outcomes.items() if not carried(key))
        outcome_us = next(waiting, None)
        if outcome_us is not None:
            due.append(outcome_us + self._outcome_us)
        return min(due, default=None)

    def _hold(self, pool: HeldRecords, held: Held) -> None:
        key = key_of(held.record)
        pool.pop(key)
        if key not in self.held:
            self.held.put(held)
