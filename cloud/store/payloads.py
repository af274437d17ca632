"""The pictures behind the records: content in a folder, one reference per frame in the store, a quota over all.

`commit` puts the content on the disk before its rows, so what was acknowledged can be read. Beyond the quota the
content that is worth least goes, the oldest first; the record keeps hash, codec and size, and says that the picture is
no longer kept. A missing or damaged file is told and counted; it never stops anything.
"""

import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import and_, bindparam, delete, func, select

from cloud.store.payload_folder import PayloadFolder, content_hash
from cloud.store.payload_ref import COLUMNS, PayloadRef
from cloud.store.records import RecordStore
from cloud.store.row import KEY, key_of
from cloud.store.tables import blobs, payloads
from pipelines.errors import Rejected
from pipelines.frame import Encoding, FrameId
from pipelines.result import PRIORITIES, Priority

log = logging.getLogger(__name__)

EVICT_AT_MOST = 64
_LEFTOVER_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """A frame's encoded picture. `source_size`: (width_px, height_px) of the frame as captured, (0, 0) = as encoded.
    `hard`: worth a look by a person; of two of one priority the other one is evicted first."""

    id: FrameId
    encoding: Encoding
    data: bytes = field(repr=False)
    source_size: tuple[int, int] = (0, 0)
    priority: Priority = Priority.NORMAL
    hard: bool = False

    @property
    def worth(self) -> int:
        return 2 * PRIORITIES.index(self.priority) + self.hard


@dataclass(slots=True)
class PayloadCounts:
    """Since the start. `missing`, `damaged`: files that were not there, or not what their name says; `leftover`: files
    no row knew; `too_large`: payloads larger than the whole quota, never kept."""

    stored: int = 0
    shared: int = 0
    evicted: int = 0
    evicted_bytes: int = 0
    missing: int = 0
    damaged: int = 0
    leftover: int = 0
    too_large: int = 0


class Payloads:
    """Safe for several threads. Raises Retryable when the disk or the store refuses for now."""

    def __init__(self, store: RecordStore, folder: PayloadFolder, *, max_bytes: int) -> None:
        self.folder = folder
        self.max_bytes = max_bytes
        self.counts = PayloadCounts()
        self._store = store
        self._guard = threading.Lock()  # nothing is evicted between its file and its row
        self.used_bytes = 0
        self.count_used()

    def commit(self, arrivals: Sequence[Payload], *, now_unix_us: int) -> None:
        """All of them or none: kept, durably, and their frames refer to them. The first of a frame stays; contents
        that are there already are stored no second time. Makes room first where the quota is reached."""
        with self._guard:
            contents: dict[str, Payload] = {}
            refs: list[dict[str, object]] = []
            for arrival in arrivals:
                if len(arrival.data) > self.max_bytes:
                    self.counts.too_large += 1
                    continue
                sha256 = content_hash(arrival.data)
                ref = PayloadRef(sha256=sha256, encoding=arrival.encoding, source_size=arrival.source_size)
                refs.append(ref.as_row(arrival.id))
                known = contents.get(sha256)
                if known is None or known.worth < arrival.worth:
                    contents[sha256] = arrival
            there = self.holds(contents)
            new_bytes = sum(len(p.data) for sha256, p in contents.items() if sha256 not in there)
            while self.used_bytes + new_bytes > self.max_bytes and self._evict(
                self.used_bytes + new_bytes - self.max_bytes, spare=contents
            ):
                continue
            for payload in contents.values():
                self.folder.put(payload.data)
            rows = [
                {
                    "sha256": sha256,
                    "size_bytes": len(p.data),
                    "worth": p.worth,
                    "stored_unix_us": now_unix_us,
                }
                for sha256, p in sorted(contents.items())
            ]
            with self._store.writing() as connection:
                self._store.upserts.blob.run(connection, rows)
                self._store.upserts.payload.run(connection, refs)
            self.used_bytes += new_bytes
            self.counts.stored += len(contents.keys() - there)
            self.counts.shared += len(refs) - len(contents.keys() - there)

    def refer(self, refs: Iterable[tuple[FrameId, PayloadRef]]) -> None:
        """Frames whose content is held already: nothing need be sent but the reference. Durable once it returned."""
        rows = [ref.as_row(identity) for identity, ref in refs]
        with self._guard, self._store.writing() as connection:
            self._store.upserts.payload.run(connection, rows)

    def refs(self, ids: Iterable[FrameId]) -> list[PayloadRef]:
        """The references of those that have one, in their order."""
        with self._store.reading() as connection:
            found = [connection.execute(_REF, key_of(i)).mappings().first() for i in ids]
        return [PayloadRef.of(dict(row), kept=bool(row["kept"])) for row in found if row is not None]

    def known(self, ids: Iterable[FrameId]) -> set[FrameId]:
        """Those whose payload has come at some time, evicted since or not: they are not wanted again."""
        with self._store.reading() as connection:
            return {i for i in ids if connection.execute(_KNOWN, key_of(i)).first() is not None}

    def holds(self, sha256s: Iterable[str]) -> set[str]:
        """Those contents that are kept now."""
        with self._store.reading() as connection:
            return {
                sha256
                for sha256 in sha256s
                if connection.execute(_HELD, {"sha256": sha256}).first() is not None
            }

    def read(self, sha256: str) -> bytes:
        """Rejected, with words and counted, when it is missing or damaged."""
        try:
            return self.folder.read(sha256)
        except Rejected as error:
            if self.folder.path(sha256).exists():
                self.counts.damaged += 1
            else:
                self.counts.missing += 1
            log.warning("%s", error)
            raise

    def count_used(self) -> int:
        """Bytes in the folder as the store knows them, whichever worker put them there."""
        with self._store.reading() as connection:
            total = connection.execute(select(func.coalesce(func.sum(blobs.c.size_bytes), 0))).scalar_one()
        self.used_bytes = int(total)
        return self.used_bytes

    def trim(self) -> bool:
        """Bring the folder under its quota by one bounded step; True if there is more to do."""
        with self._guard:
            over_bytes = self.count_used() - self.max_bytes
            return over_bytes > 0 and self._evict(over_bytes) and self.used_bytes > self.max_bytes

    def tidy(self, shard: str, *, now_unix_s: float) -> None:
        """Of one of the 256 parts: remove files no row knows, an hour old, and forget contents whose file is gone."""
        before_s = now_unix_s - _LEFTOVER_S
        with self._guard:
            files = self.folder.shard(shard)
            with self._store.reading() as connection:
                known = set(
                    connection.execute(
                        select(blobs.c.sha256).where(blobs.c.sha256.startswith(shard))
                    ).scalars()
                )
            gone = known - files.keys()
            if gone:
                with self._store.writing() as connection:
                    connection.execute(_FORGET, [{"which": sha256} for sha256 in sorted(gone)])
                self.counts.missing += len(gone)
                log.warning("%d payloads are missing from %s", len(gone), self.folder.root)
            for sha256, put_s in files.items():
                if sha256 not in known and put_s < before_s:
                    self.folder.drop(sha256)
                    self.counts.leftover += 1
        self.folder.clear_begun(before_s)

    def forget(self, refs: Iterable[tuple[Mapping[str, object], str]]) -> None:
        """Frames (agent, run in hex, stream, seq) whose records go, each with its content hash: the references, and
        the contents nobody else refers to."""
        rows = list(refs)
        hashes = sorted({sha256 for _, sha256 in rows})
        if not rows:
            return
        with self._guard:
            with self._store.writing() as connection:
                connection.execute(_UNREFER, [{f"b_{name}": key[name] for name in KEY} for key, _ in rows])
                referred = set(
                    connection.execute(
                        select(payloads.c.sha256).where(payloads.c.sha256.in_(hashes)).distinct()
                    ).scalars()
                )
                left = [sha256 for sha256 in hashes if sha256 not in referred]
                if left:
                    connection.execute(_FORGET, [{"which": sha256} for sha256 in left])
            self._discard(left)

    def _discard(self, sha256s: Iterable[str]) -> None:
        for sha256 in sha256s:
            self.folder.drop(sha256)

    def _evict(self, over_bytes: int, spare: Iterable[str] = ()) -> bool:
        """One step: what is worth least, the oldest first, until `over_bytes` are free; False if nothing was left."""
        spared = set(spare)
        with self._store.writing() as connection:
            worst = connection.execute(
                select(blobs.c.sha256, blobs.c.size_bytes)
                .order_by(blobs.c.worth, blobs.c.stored_unix_us, blobs.c.sha256)
                .limit(EVICT_AT_MOST + len(spared))
            ).all()
            chosen: list[tuple[str, int]] = []
            freed_bytes = 0
            for sha256, size_bytes in worst:
                if freed_bytes >= over_bytes or len(chosen) == EVICT_AT_MOST:
                    break
                if sha256 not in spared:
                    chosen.append((sha256, size_bytes))
                    freed_bytes += size_bytes
            if chosen:
                connection.execute(_FORGET, [{"which": sha256} for sha256, _ in chosen])
        self._discard(sha256 for sha256, _ in chosen)
        self.used_bytes -= freed_bytes
        self.counts.evicted += len(chosen)
        self.counts.evicted_bytes += freed_bytes
        return bool(chosen)


_OF_ONE = and_(*(payloads.c[name] == bindparam(name) for name in KEY))
_KNOWN = select(payloads.c.sha256).where(_OF_ONE)
_REF = (
    select(*(payloads.c[name] for name in COLUMNS), blobs.c.sha256.is_not(None).label("kept"))
    .select_from(payloads.join(blobs, blobs.c.sha256 == payloads.c.sha256, isouter=True))
    .where(_OF_ONE)
)
_UNREFER = delete(payloads).where(*(payloads.c[name] == bindparam(f"b_{name}") for name in KEY))
_HELD = select(blobs.c.sha256).where(blobs.c.sha256 == bindparam("sha256"))
_FORGET = delete(blobs).where(blobs.c.sha256 == bindparam("which"))
