"""How an outbox file of an older format becomes one of today's: one step per format, all of them or none.

Every step is SQL that keeps each row. They run in one transaction with the new number, so that a kill in the middle
leaves the old file whole. `STEPS[0]` leads from format 1 to 2; a step is never changed once it was released.
"""

import sqlite3
from contextlib import suppress

_PAYLOAD_COLUMNS = """
    number INTEGER PRIMARY KEY,
    run BLOB NOT NULL, stream TEXT NOT NULL, seq INTEGER NOT NULL,
    priority INTEGER NOT NULL, born_us INTEGER NOT NULL,
    sha256 BLOB NOT NULL, size_bytes INTEGER NOT NULL,
    codec TEXT NOT NULL, quality INTEGER NOT NULL, width_px INTEGER NOT NULL, height_px INTEGER NOT NULL,
    bits INTEGER NOT NULL, channels INTEGER NOT NULL,
    source_width_px INTEGER NOT NULL, source_height_px INTEGER NOT NULL, hard INTEGER NOT NULL,
"""

STEPS = (
    # 2: payloads, with a law of their own.
    f"""
    CREATE TABLE payloads ({_PAYLOAD_COLUMNS} data BLOB NOT NULL, UNIQUE (run, stream, seq));
    CREATE INDEX payloads_by_worth ON payloads (priority, born_us, number);
    ALTER TABLE ledger ADD COLUMN payloads_committed INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE ledger ADD COLUMN payloads_acked INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE ledger ADD COLUMN payloads_evicted_age INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE ledger ADD COLUMN payloads_evicted_bytes INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE ledger ADD COLUMN payloads_refused INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE ledger ADD COLUMN payloads_set_aside INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE ledger ADD COLUMN payload_bytes INTEGER NOT NULL DEFAULT 0;
    """,
    # 3: records, payloads and ledger carry a checksum (NULL: written by an older format), and what a person purges is
    # counted. A column added to payloads would stand behind the data, which no look should have to cross: they move.
    f"""
    ALTER TABLE records ADD COLUMN crc INTEGER;
    ALTER TABLE ledger ADD COLUMN evicted_purged INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE ledger ADD COLUMN payloads_evicted_purged INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE ledger ADD COLUMN crc INTEGER;
    ALTER TABLE payloads RENAME TO payloads_of_2;
    DROP INDEX payloads_by_worth;
    CREATE TABLE payloads ({_PAYLOAD_COLUMNS} crc INTEGER, data BLOB NOT NULL, UNIQUE (run, stream, seq));
    INSERT INTO payloads
        SELECT number, run, stream, seq, priority, born_us, sha256, size_bytes, codec, quality, width_px, height_px,
            bits, channels, source_width_px, source_height_px, hard, NULL, data
        FROM payloads_of_2;
    DROP TABLE payloads_of_2;
    CREATE INDEX payloads_by_worth ON payloads (priority, born_us, number);
    """,
    # 4: records that a worker could read nothing of.
    """
    CREATE TABLE refused (
        entry INTEGER PRIMARY KEY, run BLOB NOT NULL, stream TEXT NOT NULL, seq INTEGER NOT NULL,
        priority INTEGER NOT NULL, born_us INTEGER NOT NULL, reason TEXT NOT NULL, data BLOB NOT NULL, crc INTEGER
    );
    CREATE INDEX refused_by_age ON refused (born_us, entry);
    """,
)

FORMAT = 1 + len(STEPS)
"""1: records, gaps, runs. 2: payloads. 3: checksums. 4: refused records."""


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
