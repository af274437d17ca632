"""A queue of parcels, bounded by bytes and by age, in memory or (durable) on disk; every parcel ends counted.

`inherited + taken = delivered + refused + evicted + set_aside + abandoned + waiting`, at any moment and after any fault.
Age is accumulated uptime, so no wall clock makes a parcel old. When the disk of a durable queue takes nothing, parcels
wait in memory (at most SHELTER_BYTES, counted in `sheltered`) and move to the disk as soon as it takes them.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from edge.sinks.delivery.parcel import Parcel, packed
from edge.sinks.delivery.spool_file import SpoolFile
from edge.sinks.delivery.spool_shelf import MemoryShelf, Shelf
from pipelines.errors import Retryable
from pipelines.result import Answer

SHELTER_BYTES = 8 << 20
_LOOK = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolSight:
    """A queue at one moment; counts are of this process. `refused` by what the receiver said.

    `inherited` parcels waited when it started; `abandoned` ones were in memory when it ended. `uncounted` names
    damaged files that held an unknown number, of which `set_aside` has what could be read. `oldest_us`: for how long the first
    one waits, 0 when none does. `disk_error` is empty while the disk takes what it is given.
    """

    waiting: int
    bytes: int
    oldest_us: int
    inherited: int
    taken: int
    delivered: int
    refused: dict[str, int]
    evicted: dict[str, int]
    set_aside: int
    uncounted: tuple[str, ...] = ()
    abandoned: int
    sheltered: int
    flash_bytes: int
    disk_error: str

    @property
    def lost(self) -> int:
        """Parcels that the receiver will never get from here."""
        gone = sum(self.refused.values()) + sum(self.evicted.values())
        return gone + self.set_aside + self.abandoned

    @property
    def balance(self) -> int:
        """0 when the law holds."""
        return self.inherited + self.taken - self.delivered - self.lost - self.waiting


class Spool:
    """Safe to use from several threads; one puts, one takes. Never raises but at construction."""

    def __init__(
        self,
        *,
        max_bytes: int,
        max_age_us: int,
        clock_us: Callable[[], int],
        file: SpoolFile | None = None,
    ) -> None:
        self._lock = threading.Lock()
        self._max_bytes = max_bytes
        self._max_age_us = max_age_us
        self._clock_us = clock_us
        self._file = file
        self._memory = MemoryShelf()
        self._opened_us = clock_us()
        self._uptime_before_us = 0 if file is None else file.uptime_us
        self._last_number = 0 if file is None else file.last_number
        self._settled_upto = 0
        self._oldest_born_us: int | None = None
        self._set_aside = self._seen_set_aside = 0
        self._ghosts = 0  # settled and counted, and still on a disk that cannot forget them now
        self._taken = self._delivered = self._abandoned = self._sheltered = 0
        self._refused: dict[str, int] = {}
        self._evicted = {"age": 0, "bytes": 0}
        self.disk_error = ""
        with self._lock:
            self._book_set_aside()
            self._look_for_oldest()

    def put(self, answers: Sequence[Answer]) -> None:
        """Keep `answers`; what exceeds the bounds for them is evicted, oldest first."""
        with self._lock:
            now_us = self._uptime_us()
            fresh = [
                packed(answer, number=self._last_number + place, born_us=now_us)
                for place, answer in enumerate(answers, 1)
            ]
            self._last_number += len(fresh)
            self._taken += len(fresh)
            if self._file is None:
                self._commit(self._memory, fresh, max_bytes=self._max_bytes)
            else:
                self._put_on_disk(self._file, fresh)
            self._look_for_oldest()

    def peek(self, *, limit: int, max_bytes: int) -> list[Parcel]:
        """The first parcels that are not settled, oldest first; at least one if there is any."""
        with self._lock:
            self._expire()
            found: list[Parcel] = []
            if self._file is not None:
                try:
                    found += self._file.peek(after=self._settled_upto, limit=limit)
                except Retryable as error:  # later ones must not overtake: they would settle these too
                    self.disk_error = str(error)
                    return []
                finally:
                    self._book_set_aside()
            found += self._memory.peek(after=self._settled_upto, limit=limit)
        found.sort(key=lambda p: p.number)
        chosen: list[Parcel] = []
        total = 0
        for parcel in found[:limit]:
            total += len(parcel.body)
            if chosen and total > max_bytes:
                break
            chosen.append(parcel)
        return chosen

    def settle(self, parcels: Sequence[Parcel], *, refused: str = "") -> None:
        """The receiver took `parcels`, the first ones of `peek`, or will never take them (`refused` says why).

        A disk that cannot forget them now is asked again; they are not given out a second time meanwhile.
        """
        with self._lock:
            self._settled_upto = max([self._settled_upto, *(p.number for p in parcels)])
            settled = self._forget(self._memory)
            if self._file is not None:
                before = self._file.set_aside
                try:
                    forgotten = self._forget(self._file)
                except Retryable as error:
                    self.disk_error = str(error)
                    forgotten = None
                # The disk has not told how many it forgot.
                if forgotten is None or self._file.set_aside != before:
                    self._ghosts += len(parcels) - settled
                    settled = len(parcels)
                else:
                    settled += forgotten - self._ghosts
                    self._ghosts = 0
                self._book_set_aside()
            if refused:
                self._refused[refused] = self._refused.get(refused, 0) + settled
            else:
                self._delivered += settled
            self._look_for_oldest()

    @property
    def empty(self) -> bool:
        return self._waiting() == 0

    def sight(self) -> SpoolSight:
        with self._lock:
            self._book_set_aside()
            born_us = self._oldest_born_us
            return SpoolSight(
                waiting=self._waiting(),
                bytes=self._memory.bytes + (0 if self._file is None else self._file.bytes),
                oldest_us=0 if born_us is None else self._uptime_us() - born_us,
                inherited=0 if self._file is None else self._file.inherited,
                taken=self._taken,
                delivered=self._delivered,
                refused=dict(self._refused),
                evicted=dict(self._evicted),
                set_aside=self._set_aside,
                uncounted=() if self._file is None else self._file.uncounted,
                abandoned=self._abandoned,
                sheltered=self._sheltered,
                flash_bytes=0 if self._file is None else self._file.flash_bytes,
                disk_error=self.disk_error,
            )

    def close(self) -> None:
        """What is only in memory is abandoned; what is on disk waits for the next start."""
        with self._lock:
            if self._file is not None:
                if self._memory.rows:
                    self._put_on_disk(self._file, [])
                self._file.close(uptime_us=self._uptime_us())
            self._abandoned += self._memory.commit(add=(), upto=self._last_number, uptime_us=0)

    # -- under the lock -----------------------------------------------------------------------------------

    def _uptime_us(self) -> int:
        return self._uptime_before_us + self._clock_us() - self._opened_us

    def _waiting(self) -> int:
        return self._memory.rows + (0 if self._file is None else self._file.rows - self._ghosts)

    def _put_on_disk(self, file: SpoolFile, fresh: list[Parcel]) -> None:
        sheltered = list(self._memory.peek(after=self._settled_upto, limit=self._memory.rows))
        try:
            self._commit(file, [*sheltered, *fresh], max_bytes=self._max_bytes)
        except Retryable as error:
            self.disk_error = str(error)
            self._sheltered += len(fresh)
            self._commit(self._memory, fresh, max_bytes=min(SHELTER_BYTES, self._max_bytes))
        else:
            self.disk_error = ""
            self._memory.commit(add=(), upto=self._last_number, uptime_us=0)

    def _commit(self, shelf: Shelf, fresh: list[Parcel], *, max_bytes: int) -> None:
        """Add `fresh` and, in the same transaction, remove from the front what the bounds do not allow."""
        excess = shelf.bytes + sum(p.bytes for p in fresh) - max_bytes
        upto, aged, squeezed = self._doomed(shelf, excess)
        removed = shelf.commit(add=fresh, upto=max(upto, self._settled_upto), uptime_us=self._uptime_us())
        self._ghosts -= removed - aged - squeezed
        # What the receiver has in hand just now may be among them, and reach it all the same.
        self._evicted["age"] += aged
        self._evicted["bytes"] += squeezed
        if shelf is self._file:
            self._book_set_aside()

    def _doomed(self, shelf: Shelf, excess: int) -> tuple[int, int, int]:
        """Number up to which the front must go, and how many of it for their age, how many for their bytes."""
        cutoff_us = self._uptime_us() - self._max_age_us
        upto, aged, squeezed = self._settled_upto, 0, 0
        while shelf.rows:
            heads = shelf.peek(after=upto, limit=_LOOK)
            for parcel in heads:
                if parcel.born_us < cutoff_us:
                    aged += 1
                elif excess > 0:
                    squeezed += 1
                else:
                    return upto, aged, squeezed
                excess -= parcel.bytes
                upto = parcel.number
            if len(heads) < _LOOK:
                break
        return upto, aged, squeezed

    def _expire(self) -> None:
        if self._oldest_born_us is None or self._oldest_born_us >= self._uptime_us() - self._max_age_us:
            return
        self._commit(self._memory, [], max_bytes=self._max_bytes)
        if self._file is not None:
            try:
                self._commit(self._file, [], max_bytes=self._max_bytes)
            except Retryable as error:
                self.disk_error = str(error)
        self._look_for_oldest()

    def _forget(self, shelf: Shelf) -> int:
        if not shelf.rows:
            return 0
        return shelf.commit(add=(), upto=self._settled_upto, uptime_us=self._uptime_us())

    def _book_set_aside(self) -> None:
        """What the file has lost since the last time counts, but for what is counted as something else already."""
        if self._file is None or self._file.set_aside == self._seen_set_aside:
            return
        self._set_aside += self._file.set_aside - self._seen_set_aside - self._ghosts
        self._seen_set_aside = self._file.set_aside
        self._ghosts = 0

    def _look_for_oldest(self) -> None:
        heads = list(self._memory.peek(after=self._settled_upto, limit=1))
        if self._file is not None and self._file.rows:
            try:
                heads += self._file.peek(after=self._settled_upto, limit=1)
            except Retryable as error:
                self.disk_error = str(error)
                return
        self._oldest_born_us = min((p.born_us for p in heads), default=None)
