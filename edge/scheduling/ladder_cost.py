"""What each rung of the ladder costs on one stream: bytes and encode time, learnt from every frame.

    bytes(rung) = prior(rung) · scene · rung factor · (1 + deviation)

The scene factor moves with every frame of the stream, whichever rung it went at; a rung's factor is how far
it is from the scene's. So a rung not used for long follows the picture all the same. Exponentially weighted
means with mean deviation, as in TCP's round-trip estimate (RFC 6298).
"""

from collections.abc import Sequence

from edge.scheduling.quantile_window import QuantileWindow
from edge.scheduling.rung import Rung

PRIOR_ENCODE_US = 5_000
SCENE_GAIN = 0.25
RUNG_GAIN = 0.1
DEVIATION_GAIN = 0.25
ENCODE_WINDOW = 60


class LadderCost:
    """`pixels` of a frame at scale 1.0. `sizes_bytes` and `encodes_us`: what `size_bytes` and `encode_us` say, rung by
    rung, for a look at all of them."""

    def __init__(self, ladder: Sequence[Rung], pixels: int) -> None:
        self._priors = [rung.prior_bytes(pixels) for rung in ladder]
        self._scene: float | None = None
        self._factors: list[float] = [1.0] * len(ladder)
        self._deviation = 0.0
        self._encode = [QuantileWindow(ENCODE_WINDOW) for _ in ladder]
        # Per rung: those of which it is the nearest that was encoded.
        self._near_to = [[at] for at in range(len(ladder))]
        self.encodes_us = [PRIOR_ENCODE_US] * len(ladder)
        self._scales = [rung.scale for rung in ladder]
        self.sizes_bytes = [*self._priors]
        self.lowest = min(range(len(ladder)), key=lambda i: self._priors[i])
        """The rung with the fewest bytes: what probes and samples are made of."""

    def observe(self, rung: int, *, size_bytes: int, encode_us: int) -> None:
        factors = self._factors
        ratio = max(1e-6, size_bytes / self._priors[rung])
        own = ratio / factors[rung]
        if self._scene is None:
            self._scene = own
        else:
            self._deviation += DEVIATION_GAIN * (abs(own / self._scene - 1.0) - self._deviation)
            self._scene += SCENE_GAIN * (own - self._scene)
            factors[rung] *= (ratio / self._scene / factors[rung]) ** RUNG_GAIN
        cautious = self._scene * (1.0 + min(1.0, self._deviation))
        self.sizes_bytes = [int(p * cautious * f) for p, f in zip(self._priors, factors)]  # noqa: B905 - both by rung
        window = self._encode[rung]
        window.add(encode_us)
        if len(window) == 1:
            nearest = [self._nearest_seen(at) for at in range(len(self._encode))]
            self._near_to = [[at for at, of in enumerate(nearest) if of == to] for to in range(len(nearest))]
        p95_us = window.quantile(0.95) or PRIOR_ENCODE_US
        for at in self._near_to[rung]:
            self.encodes_us[at] = p95_us

    def size_bytes(self, rung: int) -> int:
        """What the payload of the next frame will be, on the safe side."""
        return self.sizes_bytes[rung]

    def encode_us(self, rung: int) -> int:
        """p95 of the rung, or of the rung of the nearest scale that has been seen."""
        return self.encodes_us[rung]

    def _nearest_seen(self, rung: int) -> int:
        seen = [at for at, window in enumerate(self._encode) if len(window)]
        return min(seen, key=lambda at: (abs(self._scales[rung] - self._scales[at]), at != rung))
