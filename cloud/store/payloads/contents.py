"""The rows of what the payload folder holds, each step inside a transaction of the caller's.

Whoever drops a file holds its row, and whoever puts one looks again for the file once it holds the row: so a file and
its row never part. Rows are locked in the order of their hashes, before those of the frames.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from sqlalchemy import bindparam, delete, func, select
from sqlalchemy.engine import Connection

from cloud.store.payloads.folder import PayloadFolder
from cloud.store.sql.tables import blobs, payloads
from cloud.store.sql.upserts import Upserts
from pipelines.errors import Retryable

_AT_ONCE = 2000


def used_bytes(connection: Connection) -> int:
    """Of all of them, whichever worker put them there."""
    return int(connection.execute(select(func.coalesce(func.sum(blobs.c.size_bytes), 0))).scalar_one())


def held(connection: Connection, hashes: Iterable[str], *, lock: bool = False) -> dict[str, int]:
    """Those of these contents that are kept: hash → bytes. `lock`: until the transaction ends nobody else drops them,
    or refers to them unseen."""
    found: dict[str, int] = {}
    for among in _parts(sorted(set(hashes))):
        statement = select(blobs.c.sha256, blobs.c.size_bytes).where(blobs.c.sha256.in_(among))
        if lock:  # a SQLite transaction that writes has the whole file
            statement = statement.order_by(blobs.c.sha256).with_for_update()
        found.update((row[0], int(row[1])) for row in connection.execute(statement))
    return found


def lost(held: Mapping[str, int], folder: PayloadFolder, doubted: Collection[str]) -> set[str]:
    """Of these, hash → bytes: those without a file of that size, and those that are `doubted`."""
    return {sha256 for sha256, size in held.items() if sha256 in doubted or folder.size(sha256) != size}


def of_shard(connection: Connection, shard: str) -> set[str]:
    """The contents whose hashes begin so."""
    return set(connection.execute(select(blobs.c.sha256).where(blobs.c.sha256.startswith(shard))).scalars())


def least_worth(connection: Connection, *, at_most: int) -> Sequence[tuple[str, int]]:
    """(hash, bytes), of what is worth least the oldest first."""
    found = connection.execute(
        select(blobs.c.sha256, blobs.c.size_bytes)
        .order_by(blobs.c.worth, blobs.c.stored_unix_us, blobs.c.sha256)
        .limit(at_most)
    )
    return [(row[0], int(row[1])) for row in found]


def unreferred(connection: Connection, hashes: Iterable[str]) -> set[str]:
    """Those of these contents, locked before, that no frame refers to."""
    left = set(hashes)
    for among in _parts(sorted(left)):
        referred = select(payloads.c.sha256).where(payloads.c.sha256.in_(among)).distinct()
        left -= set(connection.execute(referred).scalars())
    return left


def drop(connection: Connection, folder: PayloadFolder, hashes: Iterable[str]) -> dict[str, int]:
    """The files and rows of those that are still there: hash → bytes. Another worker may have dropped the others.

    Raises Retryable when not even one file can be removed; a row goes only with its file."""
    dropped: dict[str, int] = {}
    refused: Retryable | None = None
    for sha256, size_bytes in held(connection, hashes, lock=True).items():
        try:
            folder.drop(sha256)
        except Retryable as error:
            refused = error
        else:
            dropped[sha256] = size_bytes
    if refused is not None and not dropped:
        raise refused
    forget(connection, dropped)
    return dropped


def forget(connection: Connection, hashes: Iterable[str]) -> None:
    """The rows alone."""
    rows = [{"which": sha256} for sha256 in sorted(hashes)]
    if rows:
        connection.execute(_FORGET, rows)


@contextmanager
def claim(connection: Connection, upserts: Upserts, sha256: str) -> Iterator[bool]:
    """True while nobody else can put this content, which has no row; False if it has one by now."""
    row: Mapping[str, object] = {"sha256": sha256, "size_bytes": 0, "worth": 0, "stored_unix_us": 0}
    free = upserts.claim.run(connection, [row]) > 0  # waits for whoever is about to give it one
    yield free
    if free:
        forget(connection, [sha256])


def _parts(hashes: Sequence[str]) -> Iterable[Sequence[str]]:
    return (hashes[at : at + _AT_ONCE] for at in range(0, len(hashes), _AT_ONCE))


_FORGET = delete(blobs).where(blobs.c.sha256 == bindparam("which"))
