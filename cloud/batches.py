"""A batch of the bulk lane, opened within limits and checked before any of it is stored."""

from cloud.limits import ServiceLimits
from cloud.store.writer import Entry
from pipelines.errors import Rejected
from protos.wire.bulk import BulkBatch
from protos.wire.records import unpack

_LARGEST_SEQ = 2**63 - 1


def batch_entry(agent: str, batch: BulkBatch, limits: ServiceLimits) -> Entry:
    """What is committed for `batch`, whole or not at all. Rejected with words if any part is not sound."""
    if batch.chunks:
        raise Rejected("this worker keeps no payloads; send results only")
    if len(batch.gaps) > limits.batch_records:
        raise Rejected(f"{len(batch.gaps)} gaps exceed the limit of {limits.batch_records}")
    records = unpack(
        batch, agent=agent, decompressed_bytes=limits.decompressed_bytes, batch_records=limits.batch_records
    )
    for record in records:
        if not 1 <= record.id.seq <= _LARGEST_SEQ:
            raise Rejected(f"{record.id.seq} is no sequence number")
    for gap in batch.gaps:
        if not 1 <= gap.first <= gap.last <= _LARGEST_SEQ:
            raise Rejected(f"{gap.first} to {gap.last} is no range of sequence numbers")
    return Entry(given=records, gaps=[(agent, gap) for gap in batch.gaps], batch=batch.batch)
