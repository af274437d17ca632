"""The pictures behind the records: content in a folder, one reference per frame in the store, a quota over all.

`commit` puts the content on the disk before its rows, so what was acknowledged can be read. Beyond the quota the
content that is worth least goes, the oldest first; the record keeps hash, codec and size, and says that it went. A missing
or damaged file is told and counted; it never stops anything. Workers share one folder: what others put and evict is counted at every `trim`.
"""

import logging
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from sqlalchemy.engine import Connection

from cloud.store.key import key_of
from cloud.store.payloads import contents, references, tidying
from cloud.store.payloads.folder import PayloadFolder, content_hash
from cloud.store.payloads.offers import Offer, giving_way, sort_offers
from cloud.store.payloads.ref import PayloadRef
from cloud.store.records import RecordStore
from cloud.store.sql.contention import in_turn
from cloud.store.sql.database import DiskFullError
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
        self._guard = threading.Lock()  # one transaction at a time keeps `used_bytes` and `counts` right
        self._doubted: set[str] = set()  # found damaged; some only by reading them
        self.used_bytes = 0
        with suppress(DiskFullError):
            self.count_used()
        if self.used_bytes == 0:  # else it is there, or not mounted
            folder.make()

    def commit(self, arrivals: Sequence[Payload], *, now_unix_us: int) -> None:
        """All of them or none: kept, durably, and their frames refer to them. Of two pictures of one frame the larger
        stays; contents that are there already are stored no second time. Makes room first where the quota is reached.
        """
        self.folder.need()
        best: dict[str, Payload] = {}
        refs: list[Offer] = []
        too_large = 0
        for arrival in arrivals:
            if len(arrival.data) > self.max_bytes:
                too_large += 1
                continue
            sha256 = content_hash(arrival.data)
            encoding = replace(arrival.encoding, body_bytes=len(arrival.data))
            ref = PayloadRef(sha256=sha256, encoding=encoding, source_size=arrival.source_size)
            refs.append((arrival.id, ref))
            known = best.get(sha256)
            if known is None or known.worth < arrival.worth:
                best[sha256] = arrival
        with self._guard:
            while in_turn(lambda: self._make_room(best)):
                continue
            for payload in best.values():
                self.folder.put(payload.data)
            in_turn(lambda: self._store_all(refs, best, now_unix_us))
            self.counts.too_large += too_large

    def settle(self, offers: Sequence[Offer], *, now_unix_us: int | None = None) -> list[int]:
        """What somebody could send: the indexes of those that are wanted. The others are settled, durably: a picture
        of that frame as large is held, or was evicted and there is no room for it; the content is held already and now
        referred to; or it is larger than the quota. Held is what has a sound file, and its size is believed, not the
        one offered."""
        self.folder.need()
        now_us = time.time_ns() // 1000 if now_unix_us is None else now_unix_us
        with self._guard:
            return in_turn(lambda: self._settle(offers, now_us))

    def refs(self, ids: Iterable[FrameId]) -> list[PayloadRef]:
        """The references of those that have one, in their order."""
        wanted = list(ids)
        with self._store.reading() as connection:
            found = references.of(connection, wanted)
        return [found[identity] for identity in wanted if identity in found]

    def holds(self, sha256s: Iterable[str]) -> set[str]:
        """Those contents that are kept now."""
        with self._store.reading() as connection:
            return set(contents.held(connection, sha256s))

    def read(self, sha256: str) -> bytes:
        """Rejected, with words and counted, when it is missing or damaged."""
        try:
            return self.folder.read(sha256)
        except Rejected as error:
            if self.folder.path(sha256).exists():
                self.counts.damaged += 1
                with self._guard:
                    self._doubted.add(sha256)
            else:
                self.counts.missing += 1
            log.warning("%s", error)
            raise

    def count_used(self) -> int:
        """Bytes in the folder as the store knows them, whichever worker put them there."""
        with self._store.reading() as connection:
            self.used_bytes = contents.used_bytes(connection)
        return self.used_bytes

    def trim(self) -> bool:
        """Bring the folder under its quota by one bounded step; True if there is more to do."""
        self.folder.need()
        with self._guard:
            over_bytes = self.count_used() - self.max_bytes
            return (
                over_bytes > 0
                and in_turn(lambda: self._evict(over_bytes))
                and self.used_bytes > self.max_bytes
            )

    def tidy(self, shard: str, *, now_unix_s: float) -> None:
        """Of one of the 256 parts: remove files no row knows, an hour old, and forget contents whose file is gone. Files
        from before the store was made anew stay: rows that knew them may be in what was set aside."""
        self.folder.need()
        before_s = now_unix_s - _LEFTOVER_S
        with self._guard:
            with self._store.reading() as connection:
                known = contents.of_shard(connection, shard)
            # After the rows: whoever commits meanwhile has its file here already.
            files = self.folder.shard(shard)
            if gone := known - files.keys():
                missing = in_turn(lambda: tidying.forget_missing(self._store, self.folder, gone))
                self.used_bytes -= sum(missing.values())
                self.counts.missing += len(missing)
                if missing:
                    log.warning("%d payloads are missing from %s", len(missing), self.folder.root)
            old = [sha256 for sha256, put_s in files.items() if sha256 not in known and put_s < before_s]
            if old:
                self.counts.leftover += in_turn(
                    lambda: tidying.drop_leftovers(self._store, self.folder, old, before_s)
                )
        self.folder.clear_begun(before_s)

    def forget(self, refs: Iterable[tuple[Mapping[str, object], str]]) -> None:
        """Frames (agent, run in hex, stream, seq) whose records go, each with its content hash: the references, and
        the contents nobody else refers to."""
        rows = list(refs)
        if not rows:
            return
        with self._guard:
            in_turn(lambda: self._forget(rows))

    # Below, under the guard: one transaction each, run again when another worker was in its way.

    def _make_room(self, coming: Mapping[str, Payload]) -> bool:
        """One step; True if it is to be called again."""
        with self._store.writing() as connection:
            there = contents.held(connection, coming)
        new_bytes = sum(len(p.data) for sha256, p in coming.items() if sha256 not in there)
        over_bytes = self.used_bytes + new_bytes - self.max_bytes
        return over_bytes > 0 and self._evict(over_bytes, spare=coming)

    def _store_all(self, refs: Sequence[Offer], coming: Mapping[str, Payload], now_us: int) -> None:
        rows = [
            {"sha256": sha256, "size_bytes": len(p.data), "worth": p.worth, "stored_unix_us": now_us}
            for sha256, p in sorted(coming.items())
        ]
        with self._store.writing() as connection:
            beside = self._beside(connection, refs)
            known = contents.held(connection, beside | coming.keys(), lock=True)
            self._store.upserts.blob.run(connection, rows)
            for sha256, payload in coming.items():
                if not self.folder.path(sha256).exists():  # evicted elsewhere after it was put
                    self.folder.put(payload.data)
            lost = contents.lost(known, self.folder, self._doubted) - coming.keys()
            dropped = self._refer(connection, refs, beside, lost, now_us)
        self._doubted -= coming.keys()
        new = coming.keys() - known.keys()
        self.used_bytes += sum(len(coming[sha256].data) for sha256 in new) - sum(dropped.values())
        self.counts.stored += len(new)
        self.counts.shared += len(refs) - len(new)

    def _settle(self, offers: Sequence[Offer], now_us: int) -> list[int]:
        with self._store.writing() as connection:
            there = references.of(connection, [identity for identity, _ in offers])
            hashes = {ref.sha256 for _, ref in offers} | {ref.sha256 for ref in there.values()}
            held = contents.held(connection, hashes, lock=True)
            lost = contents.lost(held, self.folder, self._doubted)
            found = sort_offers(
                offers,
                present=there,
                sound={sha256: size for sha256, size in held.items() if sha256 not in lost},
                lost=lost,
                room_bytes=self.max_bytes - self.used_bytes,
                max_bytes=self.max_bytes,
            )
            beside = self._beside(connection, found.shared)
            dropped = self._refer(connection, found.shared, beside, lost, now_us)
        self.used_bytes -= sum(dropped.values())
        self.counts.shared += len(found.shared)
        self.counts.too_large += found.too_large
        if damaged := {sha256 for sha256 in lost - self._doubted if self.folder.size(sha256) is not None}:
            self._doubted |= damaged
            self.counts.damaged += len(damaged)
        if lost:
            log.warning("%d payloads are missing from %s or damaged", len(lost), self.folder.root)
        return found.wanted

    def _forget(self, rows: Sequence[tuple[Mapping[str, object], str]]) -> None:
        hashes = {sha256 for _, sha256 in rows}
        with self._store.writing() as connection:
            contents.held(connection, hashes, lock=True)
            references.remove(connection, [key for key, _ in rows])
            dropped = self._drop_unreferred(connection, hashes)
        self.used_bytes -= sum(dropped.values())

    def _refer(
        self, connection: Connection, refs: Sequence[Offer], beside: set[str], lost: set[str], now_us: int
    ) -> dict[str, int]:
        """In the place of what is lost; those `beside` that are dropped for it: hash → bytes."""
        if lost:
            there = references.of(connection, [identity for identity, _ in refs])
            references.remove(connection, map(key_of, giving_way(refs, there, lost)))
        references.put(connection, self._store.upserts, refs, now_us)
        return self._drop_unreferred(connection, beside)

    def _beside(self, connection: Connection, refs: Sequence[Offer]) -> set[str]:
        """Contents that may lose their last frame when these are referred to: a larger picture takes its place."""
        ids = {identity for identity, _ in refs}
        beside = {ref.sha256 for ref in references.of(connection, ids).values()}
        if beside or len(ids) < len(refs):  # one of the two of a frame loses
            beside |= {ref.sha256 for _, ref in refs}
        return beside

    def _drop_unreferred(self, connection: Connection, hashes: Iterable[str]) -> dict[str, int]:
        left = contents.unreferred(connection, hashes)
        return contents.drop(connection, self.folder, left) if left else {}

    def _evict(self, over_bytes: int, spare: Iterable[str] = ()) -> bool:
        """One step: what is worth least, the oldest first, until `over_bytes` are free; False if nothing was left."""
        spared = set(spare)
        chosen: list[str] = []
        freed_bytes = 0
        with self._store.writing() as connection:
            for sha256, size_bytes in contents.least_worth(connection, at_most=EVICT_AT_MOST + len(spared)):
                if freed_bytes >= over_bytes or len(chosen) == EVICT_AT_MOST:
                    break
                if sha256 not in spared:
                    chosen.append(sha256)
                    freed_bytes += size_bytes
            dropped = contents.drop(connection, self.folder, chosen)
            if len(dropped) < len(chosen):  # another worker makes room as well
                self.used_bytes = contents.used_bytes(connection)
            else:
                self.used_bytes -= sum(dropped.values())
        self.counts.evicted += len(dropped)
        self.counts.evicted_bytes += sum(dropped.values())
        return bool(chosen)
