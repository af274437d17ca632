"""Which picture a frame has: the rows of `payloads`, each step inside a transaction of the caller's."""

from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import bindparam, delete, select, tuple_
from sqlalchemy.engine import Connection

from cloud.store.key import KEY, id_of, in_order, key_of
from cloud.store.payloads.ref import COLUMNS, PayloadRef
from cloud.store.sql.tables import blobs, payloads
from cloud.store.sql.upserts import Upserts
from pipelines.frame import FrameId

_AT_ONCE = 500


def of(connection: Connection, ids: Iterable[FrameId]) -> dict[FrameId, PayloadRef]:
    """Of those that have one."""
    wanted = sorted({tuple(key_of(identity).values()) for identity in ids})
    found: dict[FrameId, PayloadRef] = {}
    for at in range(0, len(wanted), _AT_ONCE):
        among = _FOUND.where(tuple_(*(payloads.c[name] for name in KEY)).in_(wanted[at : at + _AT_ONCE]))
        for row in connection.execute(among).mappings():
            found[id_of(dict(row))] = PayloadRef.of(dict(row), kept=bool(row["kept"]))
    return found


def put(
    connection: Connection, upserts: Upserts, refs: Sequence[tuple[FrameId, PayloadRef]], now_unix_us: int
) -> None:
    """Of two of one frame the larger stays."""
    rows = ({**ref.as_row(identity), "received_unix_us": now_unix_us} for identity, ref in refs)
    upserts.payload.run(connection, in_order(rows))


def remove(connection: Connection, keys: Iterable[Mapping[str, object]]) -> None:
    """Of frames by agent, run in hex, stream and seq."""
    rows = sorted(tuple(key[name] for name in KEY) for key in keys)
    if rows:
        connection.execute(
            _REMOVE, [{f"b_{name}": value for name, value in zip(KEY, row, strict=True)} for row in rows]
        )


_FOUND = select(
    *(payloads.c[name] for name in (*KEY, *COLUMNS)), blobs.c.sha256.is_not(None).label("kept")
).select_from(payloads.join(blobs, blobs.c.sha256 == payloads.c.sha256, isouter=True))
_REMOVE = delete(payloads).where(*(payloads.c[name] == bindparam(f"b_{name}") for name in KEY))
