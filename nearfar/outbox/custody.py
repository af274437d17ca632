"""An outbox in our hands while its agent is stopped: locked against the agent, and nothing in it evicted."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from edge.identity import InUseError, StateDir
from edge.outbox.bounds import Bounds
from edge.outbox.sqlite import SqliteOutbox
from edge.outbox.store import Changes
from nearfar.outbox.view import file_of, looking
from pipelines.errors import ConfigError
from pipelines.runtime import monotonic_us

NO_BOUNDS = Bounds(max_bytes=1 << 62, max_age_us=1 << 61)
"""Whatever the agent's own are: it is not for a visitor to give up what it keeps."""

AT_ONCE = 512


@dataclass(frozen=True, slots=True)
class Custody:
    state: StateDir
    store: SqliteOutbox
    agent: str
    """The name the agent kept; empty if there is none."""


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


def purge(store: SqliteOutbox, numbers: Sequence[int], payloads: Sequence[int]) -> tuple[int, int]:
    """Give these records up with the payloads of their frames, and these payloads: counted as evicted, and a gap tells
    the cloud which frames the records were of. How many of each were there."""
    before = store.ledger()
    for first in range(0, len(numbers), AT_ONCE):
        store.commit(Changes(purged=numbers[first : first + AT_ONCE]), monotonic_us())
    for first in range(0, len(payloads), AT_ONCE):
        store.commit(Changes(purged_payloads=payloads[first : first + AT_ONCE]), monotonic_us())
    after = store.ledger()
    return (
        after.evicted_purged - before.evicted_purged,
        after.payloads_evicted_purged - before.payloads_evicted_purged,
    )
