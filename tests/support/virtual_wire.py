"""The wire of one link in a virtual world: an ordered stream of so many bytes a second and so long a way."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass
class Wire:
    """One link: `rtt_us(now)` None = the packet is lost; `frames_pass` False = only small packets arrive;
    `window_frames` is what its worker's replies say, 0 = nothing."""

    rtt_us: Callable[[int], int | None] = lambda _: 20_000
    worker_us: Callable[[int], int] = lambda _: 20_000
    bytes_per_us: float = 12.5
    frames_pass: bool = True
    window_frames: int = 0
    free_us: int = 0
    sent_bytes: int = 0
