"""Where the time of an answer went, part by part, in µs; parts that are estimates end in `_est`.

The parts plus `unexplained` add up to the latency: nothing is rounded away. The `age` of a tracked answer is no part.
"""

from pipelines.result import WorkerTiming


def near_timing(
    *,
    captured_us: int,
    accepted_us: int,
    due_us: int,
    started_us: int,
    run_us: int,
    given_us: int,
    released_us: int,
) -> dict[str, int]:
    """slot_wait: capture → accepted; planned_wait: held back for far; start: planned start → running; detect;
    hold: result → decision, waiting for far; commit: decision → release."""
    done_us = started_us + run_us
    parts = {
        "slot_wait": accepted_us - captured_us,
        "planned_wait": max(0, due_us - accepted_us),
        "start": started_us - max(due_us, accepted_us),
        "detect": run_us,
        "hold": max(0, given_us - done_us),
        "commit": released_us - given_us,
    }
    parts["unexplained"] = released_us - captured_us - sum(parts.values())
    return parts


def tracked_timing(
    *,
    captured_us: int,
    accepted_us: int,
    ready_us: int,
    given_us: int,
    released_us: int,
    age_us: int,
    run_us: int,
) -> dict[str, int]:
    """slot_wait: capture → accepted; planned_wait: waiting for near and far; track: carrying the answer forward, from
    its order on; hold: carried forward → decided, waiting for near or far; commit: decided → release. `age`: from the
    capture of the picture it was said of to the capture of this one, no part of the latency."""
    parts = {
        "slot_wait": accepted_us - captured_us,
        "planned_wait": ready_us - run_us - accepted_us,
        "track": run_us,
        "hold": max(0, given_us - ready_us),
        "commit": released_us - given_us,
    }
    parts["unexplained"] = released_us - captured_us - sum(parts.values())
    return {**parts, "age": age_us}


def far_timing(
    *,
    captured_us: int,
    accepted_us: int,
    encode_us: int,
    sent_us: int,
    arrived_us: int,
    released_us: int,
    size_bytes: int,
    rtt_min_us: int,
    bytes_per_us: float,
    worker: WorkerTiming,
) -> dict[str, int]:
    """network = reply − send − worker residence, split into transmission (bytes/bandwidth), propagation
    (rtt_min) and what is left: queueing."""
    network_us = max(0, arrived_us - sent_us - worker.resident_us)
    spread_us = max(0, worker.body_mono_us - worker.head_mono_us)
    transmission_us = min(network_us, spread_us or int(size_bytes / bytes_per_us))
    propagation_us = min(network_us - transmission_us, rtt_min_us)
    worker_parts_us = worker.queue_us + worker.decode_us + worker.batch_wait_us + worker.detect_us
    parts = {
        "slot_wait": accepted_us - captured_us,
        "encode": encode_us,
        "transmission_est": transmission_us,
        "propagation_est": propagation_us,
        "network_queue_est": network_us - transmission_us - propagation_us,
        "worker_queue": worker.queue_us,
        "decode": worker.decode_us,
        "batch_wait": worker.batch_wait_us,
        "detect": worker.detect_us,
        "worker_other": max(0, worker.resident_us - worker_parts_us),
        "release": released_us - arrived_us,
    }
    parts["unexplained"] = released_us - captured_us - sum(parts.values())
    return parts
