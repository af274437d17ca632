"""The tables of the record store.

`records` has one row per frame identity in two column groups that never touch each other: what the agent
*gave* its sinks (`answered_by` is null until that outcome arrives) and, beside it, what the worker's own model
said (`far_*`). So the order in which both arrive does not matter. `payloads` says which picture a frame had, `blobs`
which pictures the payload folder holds. Wall-clock columns are for people and for retention.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Index,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    SmallInteger,
    String,
    Table,
    Text,
)

FORMAT = 3
"""1: records and gaps. 2: when gaps came, payloads and blobs. 3: when payloads came."""

metadata = MetaData()


def _key(length: int) -> String:
    """Text compared byte by byte on every database, so that all of them order identities alike."""
    return String(length).with_variant(String(length, collation="C"), "postgresql")


meta = Table(
    "meta", metadata, Column("key", String(64), primary_key=True), Column("value", Text, nullable=False)
)

records = Table(
    "records",
    metadata,
    Column("agent", _key(128), nullable=False),
    Column("run", _key(32), nullable=False, comment="hex of the 16 bytes naming a start of the agent"),
    Column("stream", _key(128), nullable=False),
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
    Column("agent", _key(128), nullable=False),
    Column("run", _key(32), nullable=False),
    Column("stream", _key(128), nullable=False),
    Column("first", BigInteger, nullable=False),
    Column("last", BigInteger, nullable=False),
    Column("reason", String(16), nullable=False),
    Column("detail", Text, nullable=False),
    Column("received_unix_us", BigInteger),
    PrimaryKeyConstraint("agent", "run", "stream", "first", "last", "reason", "detail"),
    Index("gaps_by_received", "received_unix_us"),
    sqlite_with_rowid=False,
)

payloads = Table(
    "payloads",
    metadata,
    Column("agent", _key(128), nullable=False),
    Column("run", _key(32), nullable=False),
    Column("stream", _key(128), nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("codec", String(32), nullable=False),
    Column("quality", BigInteger, nullable=False, comment="0 = the codec has none"),
    Column("width_px", BigInteger, nullable=False),
    Column("height_px", BigInteger, nullable=False),
    Column("bits", BigInteger, nullable=False),
    Column("channels", BigInteger, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("source_width_px", BigInteger, nullable=False, comment="pixels its boxes are in; 0 = as encoded"),
    Column("source_height_px", BigInteger, nullable=False),
    Column("received_unix_us", BigInteger),
    PrimaryKeyConstraint("agent", "run", "stream", "seq"),
    Index("payloads_by_sha256", "sha256"),
    Index("payloads_by_received", "received_unix_us"),
    sqlite_with_rowid=False,
)

blobs = Table(
    "blobs",
    metadata,
    Column("sha256", String(64), nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("worth", SmallInteger, nullable=False, comment="the most of its frames; least is evicted first"),
    Column("stored_unix_us", BigInteger, nullable=False, comment="when it last came"),
    PrimaryKeyConstraint("sha256"),
    Index("blobs_by_worth", "worth", "stored_unix_us"),
    sqlite_with_rowid=False,
)
