"""What the link would do to a frame sent now, from nothing but differences of single clocks.

    nominal = rtt_min + (bytes in flight + size) / bandwidth
    ξ       = observed network time / nominal
    p(on time) = share of the ξ window whose ξ·nominal + worker time is within what remains

Bandwidth is the harmonic mean of size/(body arrival − head arrival) where that spread is ≥ 2 ms, else of
size/(reply − worker time − rtt_min). Overdue frames are censored samples: slower than they already are.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple

from pipelines.result import Load, WorkerTiming
from pipelines.windows import MinWindow, SampleWindow

RTT_MIN_SPAN_US = 10_000_000
RATE_SPAN_US = 10_000_000
XI_SPAN_US = 3_000_000
XI_SAMPLES = 20
RATE_LOOK_US = 500_000
LOAD_SPAN_US = 1_000_000
SPREAD_MEANS_RATE_US = 2_000
CENSORED = 1.3
"""An overdue frame counts as this many times slower than it already is."""
PRIOR_BYTES_PER_US = 12.5
"""100 Mbit/s, until a frame has crossed."""
PRIOR_XI = (1.0, 1.2, 1.6, 2.5)


@dataclass(frozen=True, slots=True)
class _Sample:
    at_us: int
    xi: float
    worker_us: int
    frame: Hashable = None  # of a censored sample, until its reply is there


class Window(NamedTuple):
    """What the samples say together. `pairs`: (ξ, worker time), the smallest ξ first; `slowness`: their ξ alone;
    `least_xi` is 1 if they are all slower than nominal; `mid_*` are medians."""

    pairs: list[tuple[float, int]]
    slowness: list[float]
    least_xi: float
    mid_xi: float
    least_worker_us: int
    mid_worker_us: int
    most_worker_us: int


class Forecast(NamedTuple):
    """The link as it is for one moment, asked about frames of several sizes."""

    rtt_min_us: float
    bytes_per_us: float
    in_flight_bytes: int
    window: Window

    def nominal_us(self, size_bytes: int) -> float:
        return self.rtt_min_us + (self.in_flight_bytes + size_bytes) / self.bytes_per_us

    def p_on_time(self, size_bytes: int, remaining_us: int) -> float:
        """Probability in 0..1 that the reply of a frame sent now arrives within `remaining_us`."""
        if remaining_us <= 0:
            return 0.0
        nominal_us = self.rtt_min_us + (self.in_flight_bytes + size_bytes) / self.bytes_per_us
        pairs, slowness, _, _, least_us, _, most_us = self.window
        if nominal_us <= 0:
            return sum([worker_us <= remaining_us for _, worker_us in pairs]) / len(pairs)
        surely_us = remaining_us - most_us - 1
        if slowness[-1] * nominal_us <= surely_us:
            return 1.0
        # Most pairs are within or not whatever the worker's time, which the order tells; a microsecond either
        # side covers what rounding does, and those between are looked at.
        surely = bisect_right(slowness, surely_us / nominal_us)
        perhaps = bisect_right(slowness, (remaining_us - least_us + 1) / nominal_us, surely)
        within = surely
        for xi, worker_us in pairs[surely:perhaps]:
            if xi * nominal_us + worker_us <= remaining_us:
                within += 1
        return within / len(pairs)

    def crosses(self, size_bytes: int, remaining_us: int) -> bool:
        """Whether bytes in flight and these are within bandwidth × usable budget, if nothing is slower than
        nominal; a link that proved quicker than nominal is taken at its word."""
        nominal_us = self.rtt_min_us + (self.in_flight_bytes + size_bytes) / self.bytes_per_us
        return self.window.least_xi * nominal_us + self.window.least_worker_us <= remaining_us

    def completion_us(self, size_bytes: int) -> float:
        """When a frame sent now would be back: the median ξ and the median worker time."""
        return self.window.mid_xi * self.nominal_us(size_bytes) + self.window.mid_worker_us


class LinkEstimate:
    def __init__(self, prior_rtt_us: int = 20_000) -> None:
        self._prior_rtt_us = prior_rtt_us
        self._rtt_min = MinWindow(RTT_MIN_SPAN_US)
        self._rate = SampleWindow(XI_SAMPLES, RATE_SPAN_US)
        self._last_rate = 0.0
        self._rate_until_us = 0  # a new sample or a while later the mean is taken again
        self._samples: deque[_Sample] = deque(maxlen=XI_SAMPLES)
        self._censored: deque[Hashable] = deque(maxlen=XI_SAMPLES)  # frames whose sample may be censored
        self._load = Load()
        self._load_us: int | None = None
        self._window = Window([], [], 1.0, 1.0, 0, 0, 0)
        self._window_until_us = 0
        self.queued = 0.0
        """Frames ahead of a new one at the worker, as it said last."""
        self._last_rtt: tuple[int, int] | None = None

    def rtt_min_us(self, now_us: int) -> int:
        value = self._rtt_min.value(now_us)
        return self._prior_rtt_us if value is None else int(value)

    @property
    def rtt_us(self) -> int | None:
        """The last round trip without worker time and transmission, None before the first."""
        return None if self._last_rtt is None else self._last_rtt[0]

    @property
    def last_rtt(self) -> tuple[int, int] | None:
        """`rtt_us` and when it was measured."""
        return self._last_rtt

    @property
    def load(self) -> Load:
        return self._load

    def bytes_per_us(self, now_us: int) -> float:
        """The bandwidth, or a guess until a frame has crossed."""
        return self.measured_bytes_per_us(now_us) or PRIOR_BYTES_PER_US

    def measured_bytes_per_us(self, now_us: int) -> float:
        """The bandwidth as measured, the last known after a silence, 0 until a frame has crossed."""
        if now_us >= self._rate_until_us:
            self._last_rate = self._rate.harmonic_mean(now_us) or self._last_rate
            self._rate_until_us = now_us + RATE_LOOK_US
        return self._last_rate

    def nominal_us(self, *, size_bytes: int, in_flight_bytes: int, now_us: int) -> float:
        return self.rtt_min_us(now_us) + (in_flight_bytes + size_bytes) / self.bytes_per_us(now_us)

    def observe_rtt(self, rtt_us: int, now_us: int) -> None:
        """A round trip, less the worker's residence."""
        self._last_rtt = (max(0, rtt_us), now_us)
        self._rtt_min.add(self._last_rtt[0], now_us)

    def observe_load(self, load: Load, now_us: int) -> None:
        if load != self._load:
            self._window_until_us = 0
        self._load = load
        self._load_us = now_us
        self.queued = load.queue_us / load.service_p50_us if load.service_p50_us else 0.0

    def observe_frame(
        self,
        *,
        size_bytes: int,
        sent_us: int,
        arrived_us: int,
        nominal_us: float,
        timing: WorkerTiming,
        frame: Hashable = None,
    ) -> int:
        """A reply came; returns its round trip without worker time and transmission, in µs.

        `nominal_us` is what `nominal_us()` said when the frame was sent. A censored sample of the same
        `frame` gives way.
        """
        network_us = max(1, arrived_us - sent_us - timing.resident_us)
        spread_us = max(0, timing.body_mono_us - timing.head_mono_us)
        if spread_us >= SPREAD_MEANS_RATE_US:
            crossing_us = spread_us
        else:
            crossing_us = max(SPREAD_MEANS_RATE_US, network_us - self.rtt_min_us(arrived_us))
        self._rate.add(max(1, size_bytes) / crossing_us, arrived_us)
        self._rate_until_us = 0
        if frame is not None and frame in self._censored:
            kept = [s for s in self._samples if s.frame != frame]
            self._samples.clear()
            self._samples.extend(kept)
        self._window_until_us = 0
        self._samples.append(_Sample(arrived_us, network_us / max(1.0, nominal_us), timing.resident_us))
        rtt_us = max(0, network_us - spread_us)
        self.observe_rtt(rtt_us, arrived_us)
        return rtt_us

    def observe_overdue(
        self, *, sent_us: int, nominal_us: float, now_us: int, frame: Hashable = None
    ) -> None:
        """No reply yet: a censored sample, slower than this."""
        network_us = max(0, now_us - sent_us - self._worker_us(now_us))
        xi = CENSORED * network_us / max(1.0, nominal_us)
        self._window_until_us = 0
        self._samples.append(_Sample(now_us, xi, self._worker_us(now_us), frame))
        self._censored.append(frame)

    def forget_slowness(self, now_us: int, *, keep: int) -> None:
        """The link came back: only the last `keep` samples speak for it."""
        fresh = [s for s in self._samples if s.at_us >= now_us - XI_SPAN_US][-keep:]
        self._samples.clear()
        self._samples.extend(fresh)
        self._window_until_us = 0
        rates = self._rate.values(now_us)[-keep:]
        self._rate.clear()
        self._rate_until_us = 0
        for rate in rates:
            self._rate.add(rate, now_us)

    def forecast(self, *, in_flight_bytes: int, now_us: int) -> Forecast:
        if now_us >= self._window_until_us:
            self._take_window(now_us)
        rate = self._last_rate if now_us < self._rate_until_us else self.measured_bytes_per_us(now_us)
        return Forecast(self.rtt_min_us(now_us), rate or PRIOR_BYTES_PER_US, in_flight_bytes, self._window)

    def p_on_time(self, *, size_bytes: int, in_flight_bytes: int, remaining_us: int, now_us: int) -> float:
        """Probability in 0..1 that the reply of a frame sent now arrives within `remaining_us`."""
        return self.forecast(in_flight_bytes=in_flight_bytes, now_us=now_us).p_on_time(
            size_bytes, remaining_us
        )

    def _take_window(self, now_us: int) -> None:
        """The samples as they are now, good until one comes or goes or the worker's word is old."""
        while self._samples and self._samples[0].at_us < now_us - XI_SPAN_US:
            self._samples.popleft()
        least_us = self._reported_us(now_us)
        pairs = [(s.xi, max(s.worker_us, least_us)) for s in self._samples]
        if len(pairs) < len(PRIOR_XI):
            worker_us = max(self._worker_us(now_us), least_us)
            pairs += [(xi, worker_us) for xi in PRIOR_XI[len(pairs) :]]
        pairs.sort()
        slowness = [xi for xi, _ in pairs]
        work_us = sorted([worker_us for _, worker_us in pairs])
        mid = len(pairs) // 2
        self._window = Window(
            pairs, slowness, min(1.0, slowness[0]), slowness[mid], work_us[0], work_us[mid], work_us[-1]
        )
        until_us = self._samples[0].at_us + XI_SPAN_US + 1 if self._samples else now_us + XI_SPAN_US
        if least_us and self._load_us is not None:
            until_us = min(until_us, self._load_us + LOAD_SPAN_US + 1)
        self._window_until_us = until_us

    def _reported_us(self, now_us: int) -> int:
        """What the worker says a new frame would take, while that is fresh and it has a queue at all."""
        if self._load_us is None or now_us - self._load_us > LOAD_SPAN_US or not self._load.queue_us:
            return 0
        return self._load.queue_us + self._load.service_p50_us

    def _worker_us(self, now_us: int) -> int:
        """The worker's time for one frame: the median seen, or what it says of itself."""
        seen = sorted(s.worker_us for s in self._samples if s.worker_us)
        if seen:
            return seen[len(seen) // 2]
        return self._reported_us(now_us) or self._load.service_p50_us
