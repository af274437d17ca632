"""A batch of the bulk lane, opened within limits; what of it can never be stored is counted and set aside."""

import logging

from cloud.limits import LARGEST_SEQ, ServiceLimits
from cloud.store.writer import Entry
from pipelines.errors import Rejected
from pipelines.result import Gap, Record
from protos.wire.bulk import BulkBatch
from protos.wire.records import unpack

log = logging.getLogger(__name__)


def batch_entry(agent: str, batch: BulkBatch, limits: ServiceLimits) -> Entry:
    """What is committed for `batch`: all its sound rows. The others are only counted, for the agent cannot mend
    them and would send them for ever. Rejected with words if the batch as a whole cannot be opened or served.
    """
    if batch.chunks:
        raise Rejected("this worker keeps no payloads; send results only")
    if len(batch.gaps) > limits.batch_records:
        raise Rejected(f"{len(batch.gaps)} gaps exceed the limit of {limits.batch_records}")
    refused: list[str] = []
    records = unpack(
        batch,
        agent=agent,
        decompressed_bytes=limits.decompressed_bytes,
        batch_records=limits.batch_records,
        refused=lambda error: refused.append(str(error)),
    )
    given: list[Record] = []
    for record in records:
        if 1 <= record.id.seq <= LARGEST_SEQ:
            given.append(record)
        else:
            refused.append(f"{record.id.seq} is no sequence number")
    gaps: list[tuple[str, Gap]] = []
    for gap in batch.gaps:
        if 1 <= gap.first <= gap.last <= LARGEST_SEQ:
            gaps.append((agent, gap))
        else:
            refused.append(f"{gap.first} to {gap.last} is no range of sequence numbers")
    if refused:
        log.error(
            "batch %d of agent %r: %d rows can never be stored and are set aside; the first: %s",
            batch.batch,
            agent,
            len(refused),
            refused[0],
        )
    return Entry(given=given, gaps=gaps, batch=batch.batch, set_aside=len(refused))
