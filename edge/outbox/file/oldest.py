"""How old the oldest record in an outbox is, read beside the agent that owns it without ever making it wait."""

import sqlite3
from contextlib import closing
from pathlib import Path

from edge.outbox.file.schema import connect_read_only
from pipelines.errors import ConfigError
from pipelines.result import PRIORITIES

# One look into the index per priority: a scan of a million records would take the disk from the writer.
_OLDEST = "SELECT min(born_us) FROM records WHERE priority = ?"


def oldest_age_us(path: Path) -> int | None:
    """Accumulated uptime since the oldest record at `path` was captured, as of the last commit; 0 when there is
    none, None when the file cannot be read now."""
    try:
        with closing(connect_read_only(path)) as db:
            uptime = db.execute("SELECT uptime_us FROM ledger").fetchone()
            born = [db.execute(_OLDEST, (number,)).fetchone()[0] for number in range(len(PRIORITIES))]
    except (sqlite3.Error, ConfigError):
        return None
    known = [int(value) for value in born if value is not None]
    return max(0, int(uptime[0]) - min(known)) if known and uptime is not None else 0
