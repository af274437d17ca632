"""Where the payload folder and its rows have parted: one transaction for each side of it.

Another worker may put or drop the same content meanwhile, so everything is looked at again once nobody else can.
"""

from collections.abc import Iterable, Sequence

from cloud.store.payloads import contents
from cloud.store.payloads.folder import PayloadFolder
from cloud.store.records import RecordStore

_AT_MOST = 500


def forget_missing(store: RecordStore, folder: PayloadFolder, gone: Iterable[str]) -> dict[str, int]:
    """The rows of those contents whose files are not there lose nothing more by going: hash → bytes."""
    with store.writing() as connection:
        there = contents.held(connection, gone, lock=True)
        missing = {sha256: size for sha256, size in there.items() if not folder.path(sha256).exists()}
        contents.forget(connection, missing)
    return missing


def drop_leftovers(store: RecordStore, folder: PayloadFolder, hashes: Sequence[str], before_s: float) -> int:
    """How many files were removed, of those without a row that were put before then; but none from before the store was
    made anew: the rows that knew it may be in what was set aside."""
    dropped = 0
    with store.writing() as connection:
        since_s = store.made_anew_unix_us(connection) / 1e6
        old = [sha256 for sha256 in sorted(hashes) if folder.is_from(sha256, since_s, before_s)]
        for sha256 in old[:_AT_MOST]:
            with contents.claim(connection, store.upserts, sha256) as free:
                dropped += free and folder.drop_old(sha256, since_s, before_s)
    return dropped
