"""The record store's only writer: a thread that commits in groups and acknowledges after the commit.

Nothing is acknowledged before `commit` returned. While the disk refuses, live results go on: what waits is
kept up to `max_pending` rows and tried again; beyond that the newest are dropped unacknowledged, so their
agents keep them. One record that can never be stored does not hold up the others: it is counted, left out, and
the batch it came in acknowledged all the same, for its agent cannot mend it.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from cloud.store.pace import CommitPace
from cloud.store.turns import one_at_a_time
from cloud.threads import left_after
from pipelines.errors import Rejected, Retryable
from pipelines.frame import FrameId
from pipelines.result import Gap, Record
from protos.wire.bulk import RecordRange

log = logging.getLogger(__name__)

_RETRY_US = 200_000
_RETRY_MAX_US = 2_000_000
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

    `set_aside` counts rows of a batch that can never be stored: they are not among the rows here. `submitted_us`
    is the submitter's clock, for measuring how long an ack takes.
    """

    far: Sequence[Record] = ()
    given: Sequence[Record] = ()
    gaps: Sequence[tuple[str, Gap]] = ()
    to: object = None
    batch: int | None = None
    set_aside: int = 0
    submitted_us: int = 0

    @property
    def weight(self) -> int:
        """Rows it makes."""
        return len(self.far) + len(self.given) + len(self.gaps)

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


class StoreWriter:
    """`submit` from any thread, never blocks. `trouble` is why the store cannot write, empty while it can.

    Rows are counted as they leave: `committed`, `rejected` (never to be stored) or `dropped` (unacknowledged).
    """

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
        self._store = store
        self._pace = CommitPace(commit_every_us)
        self._acknowledge = acknowledge
        self._clock_us = clock_us
        self._unix_us = unix_us
        self._max_pending = max_pending
        self._changed = threading.Condition()
        self._pending: list[Entry] = []
        self._rows = 0
        self._batches = 0
        self._writing = 0
        self._stopping = False
        self._flush = False
        self._idle = False
        self.trouble = ""
        self.committed = 0
        self.rejected = 0
        self.dropped = 0
        self.thread = threading.Thread(target=self._run, name="nearfar-store", daemon=True)

    def start(self) -> None:
        self.thread.start()

    @property
    def pending(self) -> int:
        """Entries submitted and not yet committed."""
        with self._changed:
            return len(self._pending) + self._writing

    def submit(self, entry: Entry) -> bool:
        """Queue for the next commit; False when it is dropped because too much waits already."""
        with self._changed:
            if self._stopping or self._rows + entry.weight > self._max_pending:
                self.dropped += entry.weight
                return False
            self._pending.append(entry)
            self._rows += entry.weight
            self._batches += entry.batch is not None
            if self._idle or entry.batch is not None:  # else it looks by itself when the gap is over
                self._changed.notify_all()
            return True

    def count_in(self, counter: Callable[[str, str, Callable[[], float]], None]) -> None:
        """Show the counts as metrics; `counter` takes a name, words and how to read it."""
        name = "nearfar_worker_store_rows"
        counter(f"{name}_committed", "Records and gaps committed, repeats included.", lambda: self.committed)
        counter(
            f"{name}_rejected", "Records and gaps left out: they can never be stored.", lambda: self.rejected
        )
        counter(
            f"{name}_dropped",
            "Records and gaps neither stored nor acknowledged: too much waited, or the writer failed on them.",
            lambda: self.dropped,
        )

    def flush(self, timeout_us: int) -> bool:
        """Wait until nothing is pending; False if the time was not enough."""
        with self._changed:
            self._flush = True
            self._changed.notify_all()
            done = self._changed.wait_for(lambda: not self._pending and not self._writing, timeout_us / 1e6)
            self._flush = False
            return done

    def stop(self, timeout_us: int) -> bool:
        """Commit what waits and end the thread; False if something stayed uncommitted (and unacknowledged)."""
        clean = not self.thread.is_alive() or self.flush(timeout_us)
        self.halt()
        left_after([self.thread], _END_WITHIN_S)
        return clean

    def halt(self) -> None:
        """Commit nothing more after the present group; what waits stays with its agents."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def _run(self) -> None:
        last_us = self._clock_us() - self._pace.gap_us
        while True:
            with self._changed:
                self._idle = True
                self._changed.wait_for(lambda: self._pending or self._stopping)
                self._idle = False
                self._wait_for_company(last_us)
                if self._stopping:
                    return
                group, self._pending = self._pending[:_GROUP_ENTRIES], self._pending[_GROUP_ENTRIES:]
                self._writing = len(group)
                self._batches -= sum(entry.batch is not None for entry in group)
            last_us = self._clock_us()
            stored = self._write(group)
            if stored:
                try:
                    self._acknowledge(stored)
                except Exception:  # an ack is repeated by the agent's next batch; the writer must live
                    log.exception("acknowledging %d commits failed", len(stored))
            self._pace.took(self._clock_us() - last_us)
            with self._changed:
                self._writing = 0
                self._rows -= sum(entry.weight for entry in group)
                self._changed.notify_all()

    def _wait_for_company(self, last_us: int) -> None:
        """The first after a pause goes at once, the rest in groups. An agent waits for the ack of a batch, for that of a
        live result it does not."""
        while not (self._stopping or self._flush):
            gap_us = self._pace.every_us if self._batches else self._pace.gap_us
            wait_us = last_us + gap_us - self._clock_us()
            if wait_us <= 0:
                return
            self._changed.wait(wait_us / 1e6)

    def _write(self, group: Sequence[Entry]) -> list[Entry]:
        """Commit the group; in halves if something in it is refused. Returns what may be acknowledged."""
        try:
            return self._stored(group)
        except Exception:  # whatever one value provokes, the writer must live
            if len(group) > 1:
                middle = len(group) // 2
                return self._write(group[:middle]) + self._write(group[middle:])
            self.dropped += group[0].weight
            log.exception("%d rows are neither stored nor acknowledged", group[0].weight)
            return []

    def _stored(self, group: Sequence[Entry]) -> list[Entry]:
        try:
            return list(group) if self._commit(group) else []
        except Rejected as error:
            if len(group) > 1:
                raise
            return self._good_part(group[0], error)

    def _good_part(self, entry: Entry, error: Rejected) -> list[Entry]:
        """The entry without the rows that can never be stored; nothing while any other row is not stored either,
        and nothing of a live result that is refused: its agent sends it once more, in a batch."""
        stored, refused = self._divide(entry.rows())
        self.rejected += refused
        log.error("%d of %d rows can never be stored and are left out: %s", refused, entry.weight, error)
        if len(stored) + refused < entry.weight or (entry.batch is None and not stored):
            return []
        return [entry.left_with(stored)]

    def _divide(self, rows: Sequence[Entry]) -> tuple[list[Entry], int]:
        """Commit what can be of these one-row entries: those stored, and how many are refused for good."""
        try:
            return (list(rows), 0) if self._commit(rows) else ([], 0)
        except Rejected:
            if len(rows) == 1:
                return [], 1
        middle = len(rows) // 2
        first, refused_first = self._divide(rows[:middle])
        second, refused_second = self._divide(rows[middle:])
        return first + second, refused_first + refused_second

    def _commit(self, group: Sequence[Entry]) -> bool:
        """Try until it is stored; False if the writer was stopped before."""
        delay_us = _RETRY_US
        while True:
            try:
                self._store.commit(
                    now_unix_us=self._unix_us(),
                    far=one_at_a_time(r for e in group for r in e.far),
                    given=one_at_a_time(r for e in group for r in e.given),
                    gaps=[g for e in group for g in e.gaps],
                )
            except Retryable as error:
                if not self.trouble:
                    log.warning("%s; live results go on, nothing is acknowledged until it can", error)
                self.trouble = str(error)
                with self._changed:
                    if self._changed.wait_for(lambda: self._stopping, delay_us / 1e6):
                        return False
                delay_us = min(2 * delay_us, _RETRY_MAX_US)
            else:
                if self.trouble:
                    log.warning("the record store writes again")
                self.trouble = ""
                self.committed += sum(entry.weight for entry in group)
                return True
