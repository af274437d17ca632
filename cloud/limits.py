"""What a worker takes: everything is capped before it is allocated."""

from dataclasses import dataclass

LARGEST_SEQ = 2**63 - 1
"""The store keeps a seq as a signed 64-bit integer; the wire could say more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceLimits:
    """Sizes in bytes and pixels; frames and bytes in flight are per agent, the queue is for all. Frames in
    flight are the most: fewer while a new frame would wait longer than `shrink_above_us`."""

    streams: int = 16
    frames_in_flight: int = 8
    bytes_in_flight: int = 4 << 20
    shrink_above_us: int = 50_000
    queue_frames: int = 64
    queue_bytes: int = 64 << 20
    message_bytes: int = 8 << 20
    pixels: int = 12_000_000
    decompressed_bytes: int = 64 << 20
    detections: int = 1000
    batch_records: int = 4096
