"""Promises of a run that did not hold, in words; what `nearfar edge` says last and the summary keeps."""

from collections.abc import Mapping, Sequence

from edge.outbox.stats import OutboxStats
from edge.sinks.base import SinkThread
from edge.telemetry.run_dir import RunDir


def broken_promises(
    *,
    source_errors: Mapping[str, str],
    unaccounted: int,
    outbox: OutboxStats,
    kept: bool,
    sinks: Sequence[SinkThread],
    run_dir: RunDir | None,
) -> list[str]:
    """Asked once everything has ended. `unaccounted`: captured frames less ended and pending ones; `kept`: whether
    the outbox wrote down what it had in time."""
    broken = [f"stream {name}: {error}" for name, error in source_errors.items()]
    if unaccounted > 0:
        broken.append(f"{unaccounted} frames are unaccounted for")
    elif unaccounted < 0:
        broken.append(f"{-unaccounted} frames ended more than once")
    if outbox.balance != 0:
        broken.append("the outbox law does not add up")
    if outbox.payload_balance != 0:
        broken.append("the outbox law of the payloads does not add up")
    left = outbox.uncommitted + outbox.far_pending + outbox.outcomes_pending
    why = f" ({outbox.last_error})" if outbox.last_error else ""
    if left or outbox.lost:
        broken.append(f"{left + outbox.lost} answers could not be kept in the outbox{why}")
    if not kept and outbox.payloads_uncommitted:
        broken.append(f"{outbox.payloads_uncommitted} pictures could not be kept in the outbox{why}")
    elif not kept and not left and not outbox.lost:
        broken.append(
            f"the outbox could not write its end in time{why}: the cloud may hear of frames as interrupted"
        )
    for sink in sinks:
        if sink.lost:
            said = sink.last_error or sink.trouble
            why = f" ({said})" if said else ""
            broken.append(f"{sink.lost} answers did not reach the sink {sink.name}{why}")
        queue = sink.queue()
        broken += [] if queue is None else [f"sink {sink.name}: {loss}" for loss in queue.losses]
    if run_dir is not None and run_dir.lost:
        broken.append(f"{run_dir.lost} frames have no line in the run directory")
    return broken
