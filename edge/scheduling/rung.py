"""One rung of the ladder: how a frame is made small for the link, and what that has cost so far."""

from dataclasses import dataclass

from pipelines.windows import SampleWindow

PRIOR_ENCODE_US = 5_000
PRIOR_BITS_PER_PX = 2.0
PRIOR_BITS_PER_PX_LOSSLESS = 10.0
WINDOW = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """`scale` is relative to the far model's input (pixels above it are wasted); `accuracy` in 0..1; `quality` 0: the
    codec has none, it is lossless."""

    codec: str
    quality: int
    scale: float
    accuracy: float

    def size_px(self, source: tuple[int, int], far_input: tuple[int, int]) -> tuple[int, int]:
        """(width, height) to encode a `source` picture at: it fits inside scale × far input, never grows."""
        factor = min(1.0, self.scale * far_input[0] / source[0], self.scale * far_input[1] / source[1])
        return max(1, round(source[0] * factor)), max(1, round(source[1] * factor))


class RungCost:
    """Bytes and encode time of a rung on one stream: p90 of bytes and p95 of time over the last frames; until there
    are any, what pictures of so many pixels usually take."""

    def __init__(self, pixels: int, *, bits_per_px: float = PRIOR_BITS_PER_PX) -> None:
        self._prior_bytes = max(500, int(pixels * bits_per_px / 8))
        self._bytes = SampleWindow(WINDOW)
        self._encode_us = SampleWindow(WINDOW)

    def observe(self, *, size_bytes: int, encode_us: int, now_us: int) -> None:
        self._bytes.add(size_bytes, now_us)
        self._encode_us.add(encode_us, now_us)

    def size_bytes(self, now_us: int) -> int:
        return int(self._bytes.quantile(0.9, now_us) or self._prior_bytes)

    def encode_us(self, now_us: int) -> int:
        return int(self._encode_us.quantile(0.95, now_us) or PRIOR_ENCODE_US)
