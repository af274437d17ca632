"""What one link was like lately, from nothing but differences of single clocks.

    nominal   = round trip now + (bytes in flight + size) / bandwidth, as it was when the frame left
    residuals = how far the frames of the last 5 s were from their nominal (`edge.scheduling.far.forecast`)

The round trip now is the least of the last three of small messages, own bytes ahead of them taken off but never more
than leaves the least that was measured. Bandwidth is
Σ size / Σ (body arrival − head arrival), newer frames weighing more; where that spread is below 2 ms it is
reply − worker time − rtt_min. Overdue frames are censored samples: slower than they already are.
"""

from collections import deque
from collections.abc import Hashable, Sequence

from edge.scheduling.far.bandwidth import Bandwidth
from edge.scheduling.far.forecast import Forecast, Nominal, Past, Unanswered
from edge.scheduling.far.residuals import Residuals
from pipelines.result import Load, WorkerTiming
from pipelines.windows import MinWindow

RTT_MIN_SPAN_US = 10_000_000
RECENT_TRIPS = 3
RECENT_SPAN_US = 700_000
LOAD_SPAN_US = 1_000_000
NEVER_US = 1 << 62
SPREAD_MEANS_RATE_US = 2_000
CENSORED = 1.3
"""An overdue frame counts as this many times slower than it already is."""
PRIOR_BYTES_PER_US = 12.5
"""100 Mbit/s, until a frame has crossed."""


class LinkEstimate:
    def __init__(self, prior_rtt_us: int = 20_000) -> None:
        self._prior_rtt_us = prior_rtt_us
        self._rtt_min = MinWindow(RTT_MIN_SPAN_US)
        self._recent: deque[tuple[int, int]] = deque(maxlen=RECENT_TRIPS)
        self._rtt_now_us = prior_rtt_us
        self._rtt_now_until_us = 0
        self._bandwidth = Bandwidth()
        self._residuals = Residuals()
        self._load = Load()
        self._load_us: int | None = None
        self._past: Past | None = None
        self._past_until_us = 0
        self._idle: Forecast | None = None  # nothing out, nothing waiting; until something is measured
        self.queued = 0.0
        """Frames ahead of a new one at the worker, as it said last."""
        self._last_rtt: tuple[int, int] | None = None

    def rtt_min_us(self, now_us: int) -> int:
        value = self._rtt_min.value(now_us)
        return self._prior_rtt_us if value is None else int(value)

    def rtt_now_us(self, now_us: int) -> int:
        """The round trip of a small message over the link without own bytes ahead of it."""
        if now_us >= self._rtt_now_until_us:
            self._take_rtt_now(now_us)
        return self._rtt_now_us

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

    @property
    def bytes_per_us(self) -> float:
        """The bandwidth, or a guess until a frame has crossed."""
        return self._bandwidth.bytes_per_us or PRIOR_BYTES_PER_US

    @property
    def measured_bytes_per_us(self) -> float:
        """The bandwidth as measured, the last known after a silence, 0 until a frame has crossed."""
        return self._bandwidth.bytes_per_us

    def nominal(self, *, size_bytes: int, in_flight_bytes: int, now_us: int) -> Nominal:
        rate = self.bytes_per_us
        return Nominal(self.rtt_now_us(now_us), in_flight_bytes / rate, size_bytes / rate)

    def observe_rtt(self, rtt_us: int, now_us: int, *, own_us: int = 0) -> None:
        """A round trip, less the worker's residence; `own_us` of it was spent behind own bytes, which is an
        estimate: it may excuse a round trip, it must not make a minimum, nor go below one."""
        self._last_rtt = (max(0, rtt_us), now_us)
        self._rtt_min.add(self._last_rtt[0], now_us)
        self._recent.append((now_us, max(self.rtt_min_us(now_us), rtt_us - own_us)))
        self._rtt_now_until_us = 0

    def observe_load(self, load: Load, now_us: int) -> None:
        if load != self._load or not self._load_fresh(now_us):
            self._past_until_us = 0
        self._load = load
        self._load_us = now_us
        self.queued = load.queue_us / load.service_p50_us if load.service_p50_us else 0.0

    def observe_frame(
        self,
        *,
        size_bytes: int,
        sent_us: int,
        arrived_us: int,
        nominal: Nominal,
        timing: WorkerTiming,
        own_us: int = 0,
        frame: Hashable = None,
    ) -> int:
        """A reply came; returns its round trip without worker time and transmission, in µs.

        `nominal` is what `nominal()` said when the frame was sent; its head waited `own_us` for own bytes. A
        censored sample of the same `frame` gives way.
        """
        network_us = max(1, arrived_us - sent_us - timing.resident_us)
        spread_us = timing.body_mono_us - timing.head_mono_us
        rtt_us = max(0, network_us - spread_us) if spread_us > 0 else network_us
        if spread_us >= SPREAD_MEANS_RATE_US:
            crossing_us = spread_us
            extra_us = rtt_us - nominal.rtt_us - nominal.ahead_us
            stretch = spread_us / max(1.0, nominal.crossing_us)
        else:
            crossing_us = max(SPREAD_MEANS_RATE_US, network_us - self.rtt_min_us(arrived_us))
            extra_us, stretch = network_us - nominal.total_us, 1.0
        self._bandwidth.observe(max(1, size_bytes), crossing_us=crossing_us, now_us=arrived_us)
        if frame is not None:
            self._residuals.replied(frame)
        self._residuals.add(arrived_us, extra_us=extra_us, stretch=stretch, worker_us=timing.resident_us)
        self._past_until_us = 0
        self.observe_rtt(rtt_us, arrived_us, own_us=own_us)
        return rtt_us

    def observe_overdue(self, *, sent_us: int, nominal: Nominal, now_us: int, frame: Hashable = None) -> None:
        """No reply yet: a censored sample, slower than this."""
        worker_us = self._worker_us(now_us)
        network_us = max(0, now_us - sent_us - worker_us)
        extra_us = CENSORED * network_us - nominal.total_us
        self._residuals.add(now_us, extra_us=extra_us, stretch=1.0, worker_us=worker_us, censored=frame)
        self._past_until_us = 0

    def forecast(
        self, now_us: int, *, unanswered: Sequence[Unanswered] = (), waiting_bytes: int = 0
    ) -> Forecast:
        """`unanswered`: what is out, oldest first; `waiting_bytes` go before a frame decided on now."""
        if now_us >= self._rtt_now_until_us:
            self._take_rtt_now(now_us)
        past = self._past
        if past is None or now_us >= self._past_until_us:
            self._past = past = self._take_past(now_us)
            self._idle = None
        idle = not (unanswered or waiting_bytes)
        if idle and self._idle is not None:
            return self._idle
        forecast = Forecast(
            past,
            rtt_us=self._rtt_now_us,
            bytes_per_us=self._bandwidth.bytes_per_us or PRIOR_BYTES_PER_US,
            unanswered=unanswered,
            waiting_bytes=waiting_bytes,
            now_us=now_us,
        )
        if idle:
            self._idle = forecast
        return forecast

    # -- inside -------------------------------------------------------------------------------------------

    def _take_rtt_now(self, now_us: int) -> None:
        """Of the recent trips, the last one if all are old. Good until one of them is old or another comes."""
        since_us, least_us, until_us = now_us - RECENT_SPAN_US, -1, NEVER_US
        for at_us, rtt_us in self._recent:
            if at_us >= since_us:
                if least_us < 0 or rtt_us < least_us:
                    least_us = rtt_us
                until_us = min(until_us, at_us)
        if least_us < 0:
            least_us = self._recent[-1][1] if self._recent else self._prior_rtt_us
        else:
            until_us += RECENT_SPAN_US + 1
        if least_us != self._rtt_now_us and self._residuals.too_few:
            self._past_until_us = 0  # what joins too few samples goes with the round trip
        self._rtt_now_us, self._rtt_now_until_us = least_us, until_us
        self._idle = None

    def _take_past(self, now_us: int) -> Past:
        """Good until a sample comes or goes, the worker's word is old, or the round trip is another while there are few."""
        least_us = self._reported_us(now_us)
        past = self._residuals.past(
            now_us,
            least_worker_us=least_us,
            rtt_us=self.rtt_now_us(now_us),
            service_us=least_us or self._load.service_p50_us,
        )
        until_us = self._residuals.past_until_us(now_us)
        if least_us and self._load_us is not None:
            until_us = min(until_us, self._load_us + LOAD_SPAN_US + 1)
        self._past_until_us = until_us
        return past

    def _reported_us(self, now_us: int) -> int:
        """What the worker says a new frame would take, while that is fresh and it has a queue at all."""
        if not self._load_fresh(now_us) or not self._load.queue_us:
            return 0
        return self._load.queue_us + self._load.service_p50_us

    def _load_fresh(self, now_us: int) -> bool:
        return self._load_us is not None and now_us - self._load_us <= LOAD_SPAN_US

    def _worker_us(self, now_us: int) -> int:
        """The worker's time for one frame: the median seen, or what it says of itself."""
        return self._residuals.worker_us(now_us) or self._reported_us(now_us) or self._load.service_p50_us
