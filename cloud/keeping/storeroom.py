"""What a worker keeps beside its records, built from `store` of its configuration: pictures, and bounds on both.

    live frame ─→ LivePayloads ─┬→ PayloadWriter ─→ Payloads (folder + rows) ←─ Housekeeper ─→ Retention
    bulk lane ─→ Uploads (parts) ┘

Pictures of both ways end in one folder, each content once.
"""

import logging
from collections.abc import Callable, Collection, Sequence

from cloud.keeping.live_payloads import LivePayloads
from cloud.keeping.uploads import UploadCounts, Uploads
from cloud.limits import ServiceLimits
from cloud.store.housekeeper import Housekeeper
from cloud.store.kinds import StoreConfig
from cloud.store.payloads.folder import PayloadFolder, folder_of
from cloud.store.payloads.part_folder import PartFolder
from cloud.store.payloads.store import PayloadCounts, Payloads
from cloud.store.payloads.writer import Arrival, PayloadWriter
from cloud.store.records import RecordStore
from cloud.store.retention import Retention
from cloud.telemetry.metrics import WorkerMetrics
from cloud.threads import left_after

PARTS_BYTES = 256 << 20
"""Of uploads that are not whole yet, beside the quota of those that are."""

log = logging.getLogger(__name__)


class Storeroom:
    """`payloads`, `writer`, `live` and `uploads` are None when the file keeps no pictures. `codecs`: those this worker
    decodes. Raises ConfigError when the folder cannot be made."""

    def __init__(
        self,
        config: StoreConfig,
        store: RecordStore,
        *,
        limits: ServiceLimits,
        codecs: Collection[str],
        clock_us: Callable[[], int],
        unix_us: Callable[[], int],
    ) -> None:
        self._store = store
        self.payloads: Payloads | None = None
        self.writer: PayloadWriter | None = None
        self.live: LivePayloads | None = None
        self.uploads: Uploads | None = None
        parts: PartFolder | None = None
        wanted = config.payloads
        if wanted is not None:
            folder = PayloadFolder(folder_of(wanted.path.absolute(), store.store_id))
            self.payloads = Payloads(store, folder, max_bytes=wanted.max_bytes)
            store.note_payloads(self.payloads.folder.root)
            self.writer = PayloadWriter(self.payloads, acknowledge=self._acknowledge, unix_us=unix_us)
            parts = PartFolder(folder.root / "parts", max_bytes=min(PARTS_BYTES, wanted.max_bytes))
            self.uploads = Uploads(
                payloads=self.payloads, writer=self.writer, parts=parts, limits=limits, codecs=codecs
            )
            self.live = LivePayloads(self.writer, keep=wanted.keep, unsure_below=wanted.unsure_below)
        elif store.payloads_path:
            log.warning(
                "store.payloads is left out, but this store has pictures in %s: they stay, beyond any quota and "
                "store.keep, until the key is back or you remove the folder",
                store.payloads_path,
            )
        self.housekeeper = Housekeeper(
            retention=Retention(store, self.payloads),
            payloads=self.payloads,
            parts=parts,
            keep_us=config.keep,
            clock_us=clock_us,
            unix_us=unix_us,
        )

    def _acknowledge(self, arrivals: Sequence[Arrival]) -> None:
        if self.uploads is not None:
            self.uploads.acknowledge(arrivals)

    def start(self) -> None:
        if self.writer is not None:
            self.writer.start()
        self.housekeeper.start()

    def drain(self, timeout_us: int) -> bool:
        """Keep what waits; False if the time was not enough."""
        return self.writer is None or self.writer.flush(timeout_us)

    def stop(self, within_s: float) -> list[str]:
        """End both threads; those left behind, by name."""
        self.housekeeper.halt()
        threads = [self.housekeeper.thread]
        if self.writer is not None:
            self.writer.halt()
            threads.append(self.writer.thread)
        return left_after(threads, within_s)

    def show(self, metrics: WorkerMetrics) -> None:
        """Register what is counted here. Call once."""
        counts = PayloadCounts() if self.payloads is None else self.payloads.counts
        uploads = UploadCounts() if self.uploads is None else self.uploads.counts
        words: dict[str, tuple[str, Callable[[], float]]] = {
            "uploads_arrived": ("Pictures that came by the bulk lane, kept.", lambda: uploads.arrived),
            "uploads_settled": (
                "Pictures offered on the bulk lane that were here already.",
                lambda: uploads.settled,
            ),
            "uploads_damaged": ("Pictures that came whole and damaged.", lambda: uploads.damaged),
            "uploads_refused": ("Pictures offered that can never be taken.", lambda: uploads.refused),
            "uploads_received_bytes": ("Bytes of pictures on the bulk lane.", lambda: uploads.received_bytes),
            "payloads_stored": ("Pictures kept, each content once.", lambda: counts.stored),
            "payloads_shared": ("Frames whose picture was there already.", lambda: counts.shared),
            "payloads_evicted": ("Pictures given up beyond the quota.", lambda: counts.evicted),
            "payloads_evicted_bytes": ("Their bytes.", lambda: counts.evicted_bytes),
            "payloads_dropped": (
                "Pictures not kept: too much waited, the worker ended, one larger than the quota, or never to be stored.",
                self._dropped,
            ),
            "payloads_missing": ("Files that were not where they should be.", lambda: counts.missing),
            "payloads_damaged": ("Files whose content is not what their name says.", lambda: counts.damaged),
            "payloads_leftover": ("Files no record knew, removed.", lambda: counts.leftover),
            "records_pruned": (
                "Records older than store.keep, removed.",
                lambda: self.housekeeper.pruned_records,
            ),
            "gaps_pruned": ("Gaps older than store.keep, removed.", lambda: self.housekeeper.pruned_gaps),
            "store_set_aside": ("Damaged record stores moved away.", lambda: self._store.set_aside),
        }
        for name, (text, read) in words.items():
            metrics.counter(f"nearfar_worker_{name}", text, read)
        metrics.gauge(
            "nearfar_worker_payloads_failing",
            "1 while pictures cannot be kept; answers and records do not suffer from it.",
            lambda: self.writer is not None and bool(self.writer.trouble),
        )
        metrics.gauge(
            "nearfar_worker_payload_store_bytes",
            "Bytes of the pictures kept, of all workers of this store.",
            lambda: 0 if self.payloads is None else self.payloads.used_bytes,
        )

    def _dropped(self) -> float:
        if self.writer is None or self.payloads is None:
            return 0
        return self.writer.dropped + self.writer.refused + self.payloads.counts.too_large
