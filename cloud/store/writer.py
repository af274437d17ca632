"""The record store's only writer: commits in groups, and each agent learns what it may forget.

While the disk refuses, live results go on: what waits is kept up to `max_pending` rows; beyond that the newest are
dropped unacknowledged, so their agents keep them. One record that can never be stored is counted, left out, and the
batch it came in acknowledged all the same, for its agent cannot mend it.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from cloud.store.group_writer import GroupWriter
from cloud.store.pace import COMPANY, CommitPace
from cloud.store.turns import one_at_a_time
from cloud.threads import left_after
from pipelines.errors import Rejected, Retryable
from pipelines.frame import FrameId
from pipelines.log_throttle import LogThrottle
from pipelines.result import Gap, Record
from protos.wire.bulk import RecordRange

log = logging.getLogger(__name__)

_GROUP_ENTRIES = 512
_END_WITHIN_S = 5.0


class Store(Protocol):
    """What the writer needs of a record store."""

    def commit(
        self,
        *,
        now_unix_us: int,
        far: Iterable[Record] = (),
        given: Iterable[Record] = (),
        gaps: Iterable[tuple[str, Gap]] = (),
    ) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What is acknowledged together; `to` is whom to tell, as the submitter knows it.

    `set_aside` counts rows of a batch that can never be stored: they are not among the rows here. `awaited`: somebody is
    not answered before the ack. `submitted_us` is the submitter's clock, for measuring how long an ack takes.
    """

    far: Sequence[Record] = ()
    given: Sequence[Record] = ()
    gaps: Sequence[tuple[str, Gap]] = ()
    to: object = None
    batch: int | None = None
    set_aside: int = 0
    awaited: bool = False
    submitted_us: int = 0

    @property
    def weight(self) -> int:
        """Rows it makes."""
        return len(self.far) + len(self.given) + len(self.gaps)

    @property
    def urgent(self) -> bool:
        """An agent waits for the ack of a batch, and a client for its answer; for that of a live result nobody does."""
        return self.awaited or self.batch is not None

    def rows(self) -> "list[Entry]":
        """One entry per row."""
        return [
            *(Entry(far=[record]) for record in self.far),
            *(Entry(given=[record]) for record in self.given),
            *(Entry(gaps=[gap]) for gap in self.gaps),
        ]

    def left_with(self, rows: "Sequence[Entry]") -> "Entry":
        """The same with only these of its rows, the others set aside."""
        return replace(
            self,
            far=[r for row in rows for r in row.far],
            given=[r for row in rows for r in row.given],
            gaps=[g for row in rows for g in row.gaps],
            set_aside=self.set_aside + self.weight - len(rows),
        )


class Acknowledged(Protocol):
    def __call__(self, entries: Sequence[Entry]) -> None:
        """These are committed, durably."""
        ...


def ranges(ids: Iterable[FrameId]) -> tuple[RecordRange, ...]:
    """The identities as the fewest ranges, without ever covering one that is not among them."""
    found: list[tuple[bytes, str, int, int]] = []
    # Plain tuples: to order and tell apart dataclasses takes ten times as long, while frames wait.
    for run, stream, seq in sorted({(identity.run, identity.stream, identity.seq) for identity in ids}):
        if found and (*found[-1][:2], found[-1][3] + 1) == (run, stream, seq):
            found[-1] = (run, stream, found[-1][2], seq)
        else:
            found.append((run, stream, seq, seq))
    return tuple(
        RecordRange(run=run, stream=stream, first=first, last=last) for run, stream, first, last in found
    )


class StoreWriter(GroupWriter[Entry]):
    """`submit` from any thread, never blocks. Rows are counted as they leave: `committed`, `rejected` (never to be
    stored) or `dropped` (unacknowledged)."""

    def __init__(
        self,
        store: Store,
        *,
        commit_every_us: int,
        acknowledge: Acknowledged,
        clock_us: Callable[[], int],
        unix_us: Callable[[], int],
        max_pending: int = 20_000,
    ) -> None:
        super().__init__(
            name="nearfar-store",
            what="the record store",
            meanwhile="live results go on, nothing is acknowledged until it can",
            weigh=lambda entry: entry.weight,
            count=lambda entry: entry.weight,
            most=max_pending,
            at_once=_GROUP_ENTRIES,
            acknowledge=acknowledge,
            passing=(Retryable,),
            clock_us=clock_us,
        )
        self._store = store
        self._pace = CommitPace(commit_every_us)
        self._urgent = 0  # that wait
        self._unix_us = unix_us
        self._trouble = LogThrottle(log, clock_us=clock_us)
        self.committed = 0
        self.rejected = 0

    def submit(self, entry: Entry) -> bool:
        """Queue for the next commit; False when it is dropped because too much waits already."""
        with self._changed:
            before = self._weight
            taken = self._put(entry)
            self._urgent += taken and entry.urgent
            if taken and (entry.urgent or before < COMPANY <= self._weight):
                self._changed.notify_all()  # it may be time already
        return taken

    def count_in(self, counter: Callable[[str, str, Callable[[], float]], None]) -> None:
        """Show the counts as metrics; `counter` takes a name, words and how to read it."""
        name = "nearfar_worker_store_rows"
        counter(f"{name}_committed", "Records and gaps committed, repeats included.", lambda: self.committed)
        counter(
            f"{name}_rejected", "Records and gaps left out: they can never be stored.", lambda: self.rejected
        )
        counter(
            f"{name}_dropped",
            "Records and gaps neither stored nor acknowledged: too much waited, the worker ended, or the writer failed.",
            lambda: self.dropped,
        )

    def stop(self, timeout_us: int) -> bool:
        """Commit what waits and end the thread; False if something stayed uncommitted (and unacknowledged)."""
        clean = not self.thread.is_alive() or self.flush(timeout_us)
        self.halt()
        left_after([self.thread], _END_WITHIN_S)
        return clean

    # -- inside -------------------------------------------------------------------------------------------

    def _take(self, last_us: int) -> list[Entry]:
        group = super()._take(last_us)
        with self._changed:
            self._urgent -= sum(entry.urgent for entry in group)
        return group

    def _gap_us(self) -> int:
        return self._pace.every_us if self._urgent else self._pace.gap_us(self._weight)

    def _took(self, us: int) -> None:
        self._pace.took(us)

    def _commit(self, group: Sequence[Entry]) -> None:
        self._store.commit(
            now_unix_us=self._unix_us(),
            far=one_at_a_time(r for e in group for r in e.far),
            given=one_at_a_time(r for e in group for r in e.given),
            gaps=[g for e in group for g in e.gaps],
        )
        self.committed += sum(entry.weight for entry in group)
        self._trouble.worked("the record store")

    def _refused(self, item: Entry, error: Exception) -> list[Entry]:
        try:
            if isinstance(error, Rejected):
                return self._good_part(item, error)
        except Exception as other:  # noqa: BLE001 - said below
            error = other
        self._drop(item)
        words = f"neither keeps nor acknowledges {item.weight} rows"
        self._trouble.failed("the record store", words, error=error)
        return []

    def _good_part(self, entry: Entry, error: Rejected) -> list[Entry]:
        """The entry without the rows that can never be stored; nothing while any other row is not stored either,
        and nothing of a live result that is refused: its agent sends it once more, in a batch."""
        stored, refused = self._divide(entry.rows())
        self.rejected += refused
        words = f"leaves out {refused} of {entry.weight} rows, which can never be stored: {error}"
        self._trouble.failed("the record store", words, kind="rows")
        if len(stored) + refused < entry.weight or (entry.batch is None and not stored):
            return []
        return [entry.left_with(stored)]

    def _divide(self, rows: Sequence[Entry]) -> tuple[list[Entry], int]:
        """Commit what can be of these one-row entries: those stored, and how many are refused for good."""
        try:
            return (list(rows), 0) if self._committed(rows) else ([], 0)
        except Rejected:
            if len(rows) == 1:
                return [], 1
        middle = len(rows) // 2
        first, refused_first = self._divide(rows[:middle])
        second, refused_second = self._divide(rows[middle:])
        return first + second, refused_first + refused_second
