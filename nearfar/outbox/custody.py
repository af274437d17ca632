"""An outbox in our hands while its agent is stopped: locked against the agent, and nothing in it evicted."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from edge.identity import InUseError, StateDir
from edge.outbox.bounds import Bounds, Ledger
from edge.outbox.file.sqlite import SqliteOutbox
from edge.outbox.store import Changes
from nearfar.outbox.selection import Selection
from nearfar.outbox.view import OutboxView, file_of, looking
from pipelines.errors import ConfigError

NO_BOUNDS = Bounds(max_bytes=1 << 62, max_age_us=1 << 61)
"""Whatever the agent's own are: it is not for a visitor to give up what it keeps."""

AT_ONCE = 512
MOMENT_US = 0
"""When a visitor opens, commits and closes: no record grows older by a visit, not even by one that is killed."""


@dataclass(frozen=True, slots=True)
class Custody:
    state: StateDir
    store: SqliteOutbox
    agent: str
    """The name the agent kept; empty if there is none."""

    def change(self, changes: Iterable[Changes]) -> tuple[Ledger, Ledger]:
        """One transaction each; the ledger before and after. The store is closed afterwards."""
        self.store.open(MOMENT_US)
        try:
            before = self.store.ledger()
            for one in changes:
                self.store.commit(one, MOMENT_US)
            return before, self.store.ledger()
        finally:
            self.store.close(MOMENT_US)


@contextmanager
def custody(path: Path, *, to: str) -> Iterator[Custody]:
    """The outbox at `path`, not opened yet. Raises ConfigError when there is none, or its agent runs; `to` says what
    was wanted."""
    file = file_of(path)
    with looking(file) as view:
        agent = view.agent()
    try:
        state = StateDir(file.parent)
    except InUseError as error:
        raise ConfigError(f"an agent runs in {file.parent}; stop it to {to} its outbox") from error
    try:
        yield Custody(state, SqliteOutbox(file, bounds=NO_BOUNDS), agent)
    finally:
        state.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Numbers of rows; `refused`: of records that a worker could not read and that were set aside."""

    records: Sequence[int] = ()
    payloads: Sequence[int] = ()
    refused: Sequence[int] = ()

    def __bool__(self) -> bool:
        return bool(self.records or self.payloads or self.refused)

    def in_words(self) -> str:
        return _in_words(len(self.records), len(self.payloads), len(self.refused))


def chosen(view: OutboxView, selection: Selection, *, refused: bool) -> Rows:
    """What of an outbox is to go: either what waits, or what was set aside."""
    if refused:
        return Rows(refused=view.refused_numbers(selection))
    return Rows(records=view.numbers(selection), payloads=view.payload_numbers(selection))


def purge(held: Custody, rows: Rows) -> str:
    """Give these up, in words how many of each were there. Records go with the payloads of their frames: all counted as
    evicted, and a gap tells the cloud which frames the records were of. What was set aside was counted and explained
    when it was."""
    changes = [Changes(purged=some) for some in _pieces(rows.records)]
    changes += [Changes(purged_payloads=some) for some in _pieces(rows.payloads)]
    changes += [Changes(forgotten=some) for some in _pieces(rows.refused)]
    before, after = held.change(changes)
    return _in_words(
        after.evicted_purged - before.evicted_purged,
        after.payloads_evicted_purged - before.payloads_evicted_purged,
        before.refused - after.refused,
    )


def _pieces(numbers: Sequence[int]) -> list[Sequence[int]]:
    """No commit so long that a kill would undo minutes of work."""
    return [numbers[first : first + AT_ONCE] for first in range(0, len(numbers), AT_ONCE)]


def _in_words(records: int, payloads: int, refused: int) -> str:
    kinds = {"records": records, "pictures": payloads, "records that a worker could not read": refused}
    return " and ".join(f"{count} {what}" for what, count in kinds.items() if count) or "0 records"
