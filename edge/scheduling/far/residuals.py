"""How far the frames of the last seconds were from their nominal, column by column: a forecast looks at dozens.

Overdue frames are censored samples until their reply is there. Weights fade with age: each is reckoned once, from a moment
all of them are counted from, since a share does not see that all fade alike. The past is made anew only after a change.
"""

from collections import deque
from collections.abc import Hashable
from math import exp

from edge.scheduling.far.forecast import Past

SPAN_US = 5_000_000
SAMPLES = 30
FADE_US = 3_000_000
REBASE_US = 100 * FADE_US
"""So long after that moment another one is taken, far from where a float ends."""
PRIOR_STRETCH = (1.0, 1.2, 1.6, 2.5)
"""What a link is like as a rule: joins samples that are too few."""


class Residuals:
    """The last `SAMPLES`, none older than `SPAN_US` when asked."""

    def __init__(self) -> None:
        self._at_us: deque[int] = deque(maxlen=SAMPLES)
        self._extra_us: deque[float] = deque(maxlen=SAMPLES)
        self._worker_us: deque[int] = deque(maxlen=SAMPLES)
        self._fixed_us: deque[float] = deque(maxlen=SAMPLES)  # the sum of those two
        self._stretch: deque[float] = deque(maxlen=SAMPLES)
        self._weights: deque[float] = deque(maxlen=SAMPLES)
        self._frames: deque[Hashable] = deque(maxlen=SAMPLES)  # of censored samples, None of others
        self._censored: deque[Hashable] = deque(maxlen=SAMPLES)  # frames whose sample may be censored
        self._since_us = 0

    def add(
        self, at_us: int, *, extra_us: float, stretch: float, worker_us: int, censored: Hashable = None
    ) -> None:
        """A frame took `extra_us` more than its nominal until its head was there and back, its body `stretch` times as
        long, and `worker_us` at the worker. `censored`: the frame, if all this is only what it took at least."""
        if at_us - self._since_us > REBASE_US:
            self._rebase(at_us)
        self._at_us.append(at_us)
        self._extra_us.append(extra_us)
        self._stretch.append(stretch)
        self._worker_us.append(worker_us)
        self._fixed_us.append(extra_us + worker_us)
        self._weights.append(exp((at_us - self._since_us) / FADE_US))
        self._frames.append(censored)
        if censored is not None:
            self._censored.append(censored)

    def replied(self, frame: Hashable) -> None:
        """What `frame` took is known now: a censored sample of it gives way."""
        if frame in self._censored:
            for at in [at for at, of in enumerate(self._frames) if of == frame][::-1]:
                self._drop(at)

    @property
    def too_few(self) -> bool:
        """Whether `past`, as it was when last asked, was joined by what a link is like as a rule."""
        return len(self._weights) < len(PRIOR_STRETCH)

    def worker_us(self, now_us: int) -> int | None:
        """The median time at the worker, None without a sample."""
        self._drop_old(now_us)
        seen = sorted([worker_us for worker_us in self._worker_us if worker_us])
        return seen[len(seen) // 2] if seen else None

    def past(self, now_us: int, *, least_worker_us: int, rtt_us: int, service_us: int) -> Past:
        """Newest last. No state has a worker quicker than `least_worker_us`. `rtt_us` is for what joins too few samples,
        and `service_us` where none says how long the worker takes."""
        self._drop_old(now_us)
        if least_worker_us:
            columns = zip(self._extra_us, self._worker_us)  # noqa: B905 - of one length
            fixed_us = [extra + max(worker, least_worker_us) for extra, worker in columns]
        else:
            fixed_us = list(self._fixed_us)
        stretch, weights = list(self._stretch), list(self._weights)
        if self.too_few:
            prior, newest = PRIOR_STRETCH[len(weights) :], weights[-1] if weights else 1.0
            worker_us = max(self.worker_us(now_us) or service_us, least_worker_us)
            fixed_us += [(s - 1.0) * rtt_us + worker_us for s in prior]
            stretch += prior
            weights += [newest] * len(prior)
        return Past(fixed_us, stretch, weights)

    def past_until_us(self, now_us: int) -> int:
        """Until when what `past` said holds, if nothing is added: then the oldest is too old."""
        return self._at_us[0] + SPAN_US + 1 if self._at_us else now_us

    def _drop_old(self, now_us: int) -> None:
        while self._at_us and self._at_us[0] < now_us - SPAN_US:
            self._drop(0)

    def _drop(self, at: int) -> None:
        for column in (
            self._at_us,
            self._extra_us,
            self._worker_us,
            self._fixed_us,
            self._stretch,
            self._weights,
            self._frames,
        ):
            del column[at]

    def _rebase(self, now_us: int) -> None:
        fade = exp((self._since_us - now_us) / FADE_US)
        weights = [weight * fade for weight in self._weights]
        self._weights.clear()
        self._weights.extend(weights)
        self._since_us = now_us
