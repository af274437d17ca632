"""One rung of the ladder: how a frame is made small for the link."""

from bisect import bisect_left
from dataclasses import dataclass

BITS_PER_PX = ((1, 0.25), (20, 0.6), (35, 0.9), (50, 1.2), (70, 1.6), (80, 2.0), (90, 3.0), (100, 8.0))
"""JPEG quality → bits per pixel of a busy picture, on the safe side; only until the first frame is encoded."""
LOSSLESS_BITS_PER_PX = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """`scale` is relative to the far model's input (pixels above it are wasted); `accuracy` in 0..1; `quality` 0: the
    codec has none, it is lossless. `payload_bytes`: mean of those measured; None = never measured."""

    codec: str
    quality: int
    scale: float
    accuracy: float
    payload_bytes: int | None = None

    def size_px(self, source: tuple[int, int], far_input: tuple[int, int]) -> tuple[int, int]:
        """(width, height) to encode a `source` picture at: it fits inside scale × far input, never grows."""
        factor = min(1.0, self.scale * far_input[0] / source[0], self.scale * far_input[1] / source[1])
        return max(1, round(source[0] * factor)), max(1, round(source[1] * factor))

    def prior_bytes(self, pixels: int) -> int:
        """The payload as measured, else a guess at that of a frame that has `pixels` at scale 1.0."""
        if self.payload_bytes is not None:
            return self.payload_bytes
        bits = _bits_per_px(self.quality) if self.quality else LOSSLESS_BITS_PER_PX
        return max(500, int(pixels * self.scale**2 * bits / 8))


def _bits_per_px(quality: int) -> float:
    """Of a JPEG, between the points that are known."""
    at = bisect_left(BITS_PER_PX, (quality, 0.0))
    (q0, b0), (q1, b1) = BITS_PER_PX[max(0, at - 1)], BITS_PER_PX[at]
    return b1 if q1 == q0 else b0 + (b1 - b0) * (quality - q0) / (q1 - q0)
