"""The pictures behind the records: content in a folder, one reference per frame in the store, a quota over all.

`commit` puts the content on the disk before its rows, so what was acknowledged can be read. Beyond the quota the
content that is worth least goes, the oldest first; the record keeps hash, codec and size, and says that the picture is
no longer kept. A missing or damaged file is told and counted; it never stops anything.
"""

import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy import and_, bindparam, delete, func, select
from sqlalchemy.engine import Connection

from cloud.store.payload_folder import PayloadFolder, content_hash
from cloud.store.payload_ref import COLUMNS, PayloadRef
from cloud.store.records import RecordStore
from cloud.store.row import KEY, in_order, key_of
from cloud.store.tables import blobs, payloads
from pipelines.errors import Rejected
from pipelines.frame import Encoding, FrameId
from pipelines.result import PRIORITIES, Priority

Offer = tuple[FrameId, PayloadRef]

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
        if self.count_used() == 0:  # else it is there, or not mounted
            folder.make()

    def commit(self, arrivals: Sequence[Payload], *, now_unix_us: int) -> None:
        """All of them or none: kept, durably, and their frames refer to them. Of two pictures of one frame the larger
        stays; contents that are there already are stored no second time. Makes room first where the quota is reached.
        """
        self.folder.need()
        with self._guard:
            contents: dict[str, Payload] = {}
            refs: list[Offer] = []
            for arrival in arrivals:
                if len(arrival.data) > self.max_bytes:
                    self.counts.too_large += 1
                    continue
                sha256 = content_hash(arrival.data)
                encoding = replace(arrival.encoding, body_bytes=len(arrival.data))
                refs.append(
                    (
                        arrival.id,
                        PayloadRef(sha256=sha256, encoding=encoding, source_size=arrival.source_size),
                    )
                )
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
            self._refer(refs, rows)
            self.used_bytes += new_bytes
            self.counts.stored += len(contents.keys() - there)
            self.counts.shared += len(refs) - len(contents.keys() - there)

    def settle(self, offers: Sequence[Offer]) -> list[int]:
        """What somebody could send: the indexes of those that are wanted. The others are settled, durably: a picture
        of that frame as large has come at some time (evicted since or not), the content is held already and now
        referred to, or it is larger than the quota."""
        held = self.holds(ref.sha256 for _, ref in offers)
        wanted: list[int] = []
        shared: list[Offer] = []
        for index, (identity, ref) in enumerate(offers):
            there = next(iter(self.refs([identity])), None)
            if there is not None and there.encoding.body_bytes >= ref.encoding.body_bytes:
                continue
            if ref.sha256 in held:
                shared.append((identity, ref))
            elif ref.encoding.body_bytes > self.max_bytes:
                self.counts.too_large += 1
            else:
                wanted.append(index)
        if shared:
            with self._guard:
                self._refer(shared)
            self.counts.shared += len(shared)
        return wanted

    def refs(self, ids: Iterable[FrameId]) -> list[PayloadRef]:
        """The references of those that have one, in their order."""
        with self._store.reading() as connection:
            found = [connection.execute(_REF, key_of(i)).mappings().first() for i in ids]
        return [PayloadRef.of(dict(row), kept=bool(row["kept"])) for row in found if row is not None]

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
        self.folder.need()
        with self._guard:
            over_bytes = self.count_used() - self.max_bytes
            return over_bytes > 0 and self._evict(over_bytes) and self.used_bytes > self.max_bytes

    def tidy(self, shard: str, *, now_unix_s: float) -> None:
        """Of one of the 256 parts: remove files no row knows, an hour old, and forget contents whose file is gone."""
        self.folder.need()
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
        if not rows:
            return
        with self._guard:
            with self._store.writing() as connection:
                connection.execute(_UNREFER, [{f"b_{name}": key[name] for name in KEY} for key, _ in rows])
                left = self._drop_unreferred(connection, {sha256 for _, sha256 in rows})
            self._discard(left)

    def _refer(self, refs: Sequence[Offer], contents: Sequence[Mapping[str, object]] = ()) -> None:
        """Under the guard: the rows, and nothing left of a content that a larger picture of its frame replaced."""
        ids = {identity for identity, _ in refs}
        beside = {ref.sha256 for ref in self.refs(ids)}
        if beside or len(ids) < len(refs):  # one of the two of a frame loses
            beside |= {ref.sha256 for _, ref in refs}
        with self._store.writing() as connection:
            self._store.upserts.blob.run(connection, contents)
            self._store.upserts.payload.run(connection, in_order(ref.as_row(i) for i, ref in refs))
            left = self._drop_unreferred(connection, beside)
        self._discard(left)

    def _drop_unreferred(self, connection: Connection, hashes: Iterable[str]) -> dict[str, int]:
        """Inside a transaction: those of these contents that no frame refers to lose their row: hash → bytes."""
        among = sorted(hashes)
        if not among:
            return {}
        referred = select(payloads.c.sha256).where(payloads.c.sha256.in_(among)).distinct()
        left = set(among) - set(connection.execute(referred).scalars())
        sizes = select(blobs.c.sha256, blobs.c.size_bytes).where(blobs.c.sha256.in_(left))
        found = {row[0]: int(row[1]) for row in connection.execute(sizes)}
        if found:
            connection.execute(_FORGET, [{"which": sha256} for sha256 in found])
        return found

    def _discard(self, contents: Mapping[str, int]) -> None:
        for sha256, size_bytes in contents.items():
            self.folder.drop(sha256)
            self.used_bytes -= size_bytes

    def _evict(self, over_bytes: int, spare: Iterable[str] = ()) -> bool:
        """One step: what is worth least, the oldest first, until `over_bytes` are free; False if nothing was left."""
        spared = set(spare)
        with self._store.writing() as connection:
            worst = connection.execute(
                select(blobs.c.sha256, blobs.c.size_bytes)
                .order_by(blobs.c.worth, blobs.c.stored_unix_us, blobs.c.sha256)
                .limit(EVICT_AT_MOST + len(spared))
            ).all()
            chosen: dict[str, int] = {}
            freed_bytes = 0
            for sha256, size_bytes in worst:
                if freed_bytes >= over_bytes or len(chosen) == EVICT_AT_MOST:
                    break
                if sha256 not in spared:
                    chosen[sha256] = size_bytes
                    freed_bytes += size_bytes
            if chosen:
                connection.execute(_FORGET, [{"which": sha256} for sha256 in chosen])
        self._discard(chosen)
        self.counts.evicted += len(chosen)
        self.counts.evicted_bytes += freed_bytes
        return bool(chosen)


_OF_ONE = and_(*(payloads.c[name] == bindparam(name) for name in KEY))
_REF = (
    select(*(payloads.c[name] for name in COLUMNS), blobs.c.sha256.is_not(None).label("kept"))
    .select_from(payloads.join(blobs, blobs.c.sha256 == payloads.c.sha256, isouter=True))
    .where(_OF_ONE)
)
_UNREFER = delete(payloads).where(*(payloads.c[name] == bindparam(f"b_{name}") for name in KEY))
_HELD = select(blobs.c.sha256).where(blobs.c.sha256 == bindparam("sha256"))
_FORGET = delete(blobs).where(blobs.c.sha256 == bindparam("which"))
