"""What each rung of the ladder costs on one stream: bytes and encode time, learnt from every frame.

    bytes(rung) = prior(rung) · scene · rung factor · (1 + deviation)

The scene factor moves with every frame of the stream, whichever rung it went at; a rung's factor is how far
it is from the scene's. So a rung not used for long follows the picture all the same. Exponentially weighted
means with mean deviation, as in TCP's round-trip estimate (RFC 6298).
"""

from collections.abc import Sequence

from edge.scheduling.rung import Rung
from pipelines.windows import SampleWindow

PRIOR_ENCODE_US = 5_000
SCENE_GAIN = 0.25
RUNG_GAIN = 0.1
DEVIATION_GAIN = 0.25
ENCODE_WINDOW = 60


class LadderCost:
    """`pixels` of a frame at scale 1.0."""

    def __init__(self, ladder: Sequence[Rung], pixels: int) -> None:
        self._priors = [rung.prior_bytes(pixels) for rung in ladder]
        self._scene: float | None = None
        self._factors: list[float] = [1.0] * len(ladder)
        self._deviation = 0.0
        self._encode = [SampleWindow(ENCODE_WINDOW) for _ in ladder]
        self._encode_us: list[int | None] = [None] * len(ladder)
        self._scales = [rung.scale for rung in ladder]
        self._sizes = [float(prior) for prior in self._priors]
        self.lowest = min(range(len(ladder)), key=lambda i: self._priors[i])
        """The rung with the fewest bytes: what probes and samples are made of."""

    def observe(self, rung: int, *, size_bytes: int, encode_us: int, now_us: int) -> None:
        ratio = max(1e-6, size_bytes / self._priors[rung])
        own = ratio / self._factors[rung]
        if self._scene is None:
            self._scene = own
        else:
            self._deviation += DEVIATION_GAIN * (abs(own / self._scene - 1.0) - self._deviation)
            self._scene += SCENE_GAIN * (own - self._scene)
            self._factors[rung] *= (ratio / self._scene / self._factors[rung]) ** RUNG_GAIN
        cautious = self._scene * (1.0 + min(1.0, self._deviation))
        self._sizes = [p * cautious * f for p, f in zip(self._priors, self._factors, strict=True)]
        self._encode[rung].add(encode_us, now_us)
        self._encode_us[rung] = int(self._encode[rung].quantile(0.95, now_us) or PRIOR_ENCODE_US)

    def size_bytes(self, rung: int) -> int:
        """What the payload of the next frame will be, on the safe side."""
        return int(self._sizes[rung])

    def encode_us(self, rung: int) -> int:
        """p95 of the rung, or of the rung of the nearest scale that has been seen."""
        own_us = self._encode_us[rung]
        if own_us is not None:
            return own_us
        seen = [
            (abs(self._scales[rung] - scale), us)
            for scale, us in zip(self._scales, self._encode_us, strict=True)
            if us is not None
        ]
        return min(seen)[1] if seen else PRIOR_ENCODE_US
