"""How an outbox file of an older format becomes one of today's: one step per format, all of them or none.

Every step is SQL that keeps each row. They run in one transaction with the new number, so that a kill in the middle
leaves the old file whole. `STEPS[0]` leads from format 1 to 2; a step is never changed once it was released.
"""

import sqlite3
from contextlib import suppress

STEPS = (
    # 2: records and ledger carry a checksum (NULL: written by format 1), and what a person purges is counted.
    """
    ALTER TABLE records ADD COLUMN crc INTEGER;
    ALTER TABLE ledger ADD COLUMN evicted_purged INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE ledger ADD COLUMN crc INTEGER;
    """,
)

FORMAT = 1 + len(STEPS)


def migrate(db: sqlite3.Connection, version: int) -> None:
    """Bring `db` from format `version` to FORMAT; nothing is changed if that fails."""
    if version == FORMAT:
        return
    steps = "".join(STEPS[version - 1 :])
    try:
        db.executescript(f"BEGIN IMMEDIATE;{steps}PRAGMA user_version = {FORMAT};COMMIT;")
    except BaseException:
        with suppress(sqlite3.Error):
            if db.in_transaction:
                db.execute("ROLLBACK")
        raise
