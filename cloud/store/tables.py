"""The tables of the record store.

`records` has one row per frame identity in two column groups that never touch each other: what the agent
*gave* its sinks (`answered_by` is null until that outcome arrives) and, beside it, what the worker's own model
said (`far_*`). So the order in which both arrive does not matter. Wall-clock columns are for people.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Index,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
)

FORMAT = 1

metadata = MetaData()

meta = Table(
    "meta", metadata, Column("key", String(64), primary_key=True), Column("value", Text, nullable=False)
)

records = Table(
    "records",
    metadata,
    Column("agent", String(128), nullable=False),
    Column("run", String(32), nullable=False, comment="hex of the 16 bytes naming a start of the agent"),
    Column("stream", String(128), nullable=False),
    Column("seq", BigInteger, nullable=False),
    # what was given to the sinks
    Column("answered_by", String(16)),
    Column("status", String(16)),
    Column("on_time", Boolean),
    Column("latency_us", BigInteger),
    Column("captured_unix_us", BigInteger),
    Column("age_us", BigInteger),
    Column("late_far", Boolean),
    Column("priority", String(16)),
    Column("detections", LargeBinary, comment="protobuf nearfar.v1.Detections with labels"),
    Column("model", Text),
    Column("model_sha256", String(64)),
    Column("timing_us", Text, comment="JSON object of part: µs"),
    # what the far model said
    Column("far_status", String(16)),
    Column("far_detections", LargeBinary, comment="protobuf nearfar.v1.Detections with labels"),
    Column("far_model", Text),
    Column("far_model_sha256", String(64)),
    Column("far_timing_us", Text, comment="JSON object of part: µs"),
    Column("far_received_unix_us", BigInteger),
    Column("source", String(16), nullable=False, comment="live if this store's worker ran it, else backfill"),
    Column("received_unix_us", BigInteger, nullable=False),
    Column("updated_unix_us", BigInteger, nullable=False),
    PrimaryKeyConstraint("agent", "run", "stream", "seq"),
    Index("records_by_received", "received_unix_us"),
    sqlite_with_rowid=False,
)

gaps = Table(
    "gaps",
    metadata,
    Column("agent", String(128), nullable=False),
    Column("run", String(32), nullable=False),
    Column("stream", String(128), nullable=False),
    Column("first", BigInteger, nullable=False),
    Column("last", BigInteger, nullable=False),
    Column("reason", String(16), nullable=False),
    Column("detail", Text, nullable=False),
    PrimaryKeyConstraint("agent", "run", "stream", "first", "last", "reason", "detail"),
    sqlite_with_rowid=False,
)
