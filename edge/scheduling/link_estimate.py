"""What the link would do to a frame sent now, from nothing but differences of single clocks.

    nominal = rtt_min + (bytes in flight + size) / bandwidth
    ξ       = observed network time / nominal
    p(on time) = share of the ξ window whose ξ·nominal + worker time is within what remains

Bandwidth is the harmonic mean of size/(body arrival − head arrival) where that spread is ≥ 2 ms, else of
size/(reply − worker time − rtt_min). Overdue frames enter the window as censored samples: at least as slow
as they already are.
"""

from collections import deque
from dataclasses import dataclass

from pipelines.result import Load, WorkerTiming
from pipelines.windows import MinWindow, SampleWindow

RTT_MIN_SPAN_US = 10_000_000
XI_SPAN_US = 3_000_000
XI_SAMPLES = 20
SPREAD_MEANS_RATE_US = 2_000
PRIOR_BYTES_PER_US = 12.5
"""100 Mbit/s, until a frame has crossed."""
PRIOR_XI = (1.0, 1.2, 1.6, 2.5)


@dataclass(frozen=True, slots=True)
class _Sample:
    at_us: int
    xi: float
    worker_us: int


class LinkEstimate:
    def __init__(self, prior_rtt_us: int = 20_000) -> None:
        self._prior_rtt_us = prior_rtt_us
        self._rtt_min = MinWindow(RTT_MIN_SPAN_US)
        self._rate = SampleWindow(XI_SAMPLES)
        self._samples: deque[_Sample] = deque(maxlen=XI_SAMPLES)
        self._load = Load()
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
        return self._rate.harmonic_mean(now_us) or PRIOR_BYTES_PER_US

    def measured_bytes_per_us(self, now_us: int) -> float:
        """The bandwidth as measured, 0 until a frame has crossed."""
        return self._rate.harmonic_mean(now_us) or 0.0

    def nominal_us(self, *, size_bytes: int, in_flight_bytes: int, now_us: int) -> float:
        return self.rtt_min_us(now_us) + (in_flight_bytes + size_bytes) / self.bytes_per_us(now_us)

    def observe_rtt(self, rtt_us: int, now_us: int) -> None:
        """A round trip, less the worker's residence."""
        self._last_rtt = (max(0, rtt_us), now_us)
        self._rtt_min.add(self._last_rtt[0], now_us)

    def observe_load(self, load: Load) -> None:
        self._load = load

    def observe_frame(
        self, *, size_bytes: int, sent_us: int, arrived_us: int, nominal_us: float, timing: WorkerTiming
    ) -> int:
        """A reply came; returns its round trip without worker time and transmission, in µs.

        `nominal_us` is what `nominal_us()` said when the frame was sent.
        """
        network_us = max(1, arrived_us - sent_us - timing.resident_us)
        spread_us = max(0, timing.body_mono_us - timing.head_mono_us)
        if spread_us >= SPREAD_MEANS_RATE_US:
            crossing_us = spread_us
        else:
            crossing_us = max(SPREAD_MEANS_RATE_US, network_us - self.rtt_min_us(arrived_us))
        self._rate.add(size_bytes / crossing_us, arrived_us)
        self._samples.append(_Sample(arrived_us, network_us / max(1.0, nominal_us), timing.resident_us))
        rtt_us = max(0, network_us - spread_us)
        self.observe_rtt(rtt_us, arrived_us)
        return rtt_us

    def observe_overdue(self, *, sent_us: int, nominal_us: float, now_us: int) -> None:
        """No reply yet: a censored sample, at least this slow."""
        network_us = max(0, now_us - sent_us - self._worker_us())
        self._samples.append(_Sample(now_us, 2.0 * network_us / max(1.0, nominal_us), self._worker_us()))

    def forget_slowness(self, now_us: int, *, keep: int) -> None:
        """The link came back: only the last `keep` samples speak for it."""
        fresh = [s for s in self._samples if s.at_us >= now_us - XI_SPAN_US][-keep:]
        self._samples.clear()
        self._samples.extend(fresh)

    def p_on_time(self, *, size_bytes: int, in_flight_bytes: int, remaining_us: int, now_us: int) -> float:
        """Probability in 0..1 that the reply of a frame sent now arrives within `remaining_us`."""
        if remaining_us <= 0:
            return 0.0
        while self._samples and self._samples[0].at_us < now_us - XI_SPAN_US:
            self._samples.popleft()
        nominal_us = self.nominal_us(size_bytes=size_bytes, in_flight_bytes=in_flight_bytes, now_us=now_us)
        queue_us = self._load.queue_us
        pairs = [(s.xi, s.worker_us) for s in self._samples]
        if len(pairs) < len(PRIOR_XI):
            pairs += [(xi, self._worker_us()) for xi in PRIOR_XI[len(pairs) :]]
        within = sum(
            1 for xi, worker_us in pairs if xi * nominal_us + max(worker_us, queue_us) <= remaining_us
        )
        return within / len(pairs)

    def _worker_us(self) -> int:
        """The worker's time for one frame: the median seen, or what it says of itself."""
        seen = sorted(s.worker_us for s in self._samples if s.worker_us)
        return seen[len(seen) // 2] if seen else self._load.service_p50_us + self._load.queue_us
