"""One far way: what a link and its worker would do to a frame, and whether one may be sent at all.

Owns the frames under way on the link. Bytes out never exceed the worker's window or the data budget.
"""

from collections.abc import Mapping
from dataclasses import replace

from edge.scheduling.fair_share import WEIGHTS, FairShare
from edge.scheduling.far.breaker import Breaker
from edge.scheduling.far.data_budget import DataBudget
from edge.scheduling.far.forecast import Forecast
from edge.scheduling.far.in_flight import InFlight
from edge.scheduling.far.link_estimate import RTT_MIN_SPAN_US, LinkEstimate
from edge.scheduling.job import FORGET_US, Flight, Job
from edge.scheduling.key import Key
from edge.scheduling.settings import LinkSettings
from pipelines.result import Load, Priority, WorkerTiming
from pipelines.windows import MinWindow
from protos.wire.session import Credit

VANISHED_FRAMES = 3
VANISHED_AFTER_US = 300_000
SAMPLE_EVERY_US = 300_000
METERED_SAMPLE_EVERY_US = 1_000_000
SHORT_SPAN_US = 1_000_000
STALL = 2.0
MUTE_CONNECTIONS = 2
FRAME_OVERHEAD_BYTES = 200
PING_BYTES = 150
"""Head, framing and TCP/IP around a payload; a ping and its answer."""


class FarWay:
    """Link estimate, breaker, credit and budgets of one link, fed by the scheduler."""

    def __init__(
        self,
        settings: LinkSettings,
        *,
        fall_back_above_us: int,
        return_below_us: int,
        weights: Mapping[Priority, float] = WEIGHTS,
    ) -> None:
        self.name = settings.name
        self.metered = settings.metered
        self.link = LinkEstimate()
        self.breaker = Breaker(
            fall_back_above_us=fall_back_above_us,
            return_below_us=return_below_us,
            metered=settings.metered,
        )
        self.budget = DataBudget(bytes_per_hour=settings.bytes_per_hour, bytes_per_day=settings.bytes_per_day)
        self.share = FairShare(weights)
        self.flights: dict[Key, Flight] = {}
        self._under_way = InFlight()
        self._sample_every_us = METERED_SAMPLE_EVERY_US if settings.metered else SAMPLE_EVERY_US
        self._credit = Credit(frames=1, bytes=1 << 20)
        self._connection = 0
        self._last_sent_us = 0
        self._short_us: int | None = None
        self._band_us = fall_back_above_us
        self._prompt_ping_us = 0  # when the last ping went that was answered inside the band
        self._vanished = 0
        self._pongs = self._replies = self._frames = 0  # on this connection
        self._mute_connections = 0  # in a row, that answered pings and no frame
        self._one_way = MinWindow(RTT_MIN_SPAN_US)  # of heads, on two clocks: only differences count
        self._last_body_us = -(1 << 62)
        self._free_us = 0.0  # when what was sent should have crossed

    def __repr__(self) -> str:
        return (
            f"<FarWay {self.name} {len(self.flights)} of {self._credit.frames} under way, {self.breaker!r}>"
        )

    # -- what may be sent ---------------------------------------------------------------------------------

    def in_flight_bytes(self, now_us: int) -> int:
        """Bytes on the link, and those that will go before a frame decided on now."""
        return self._under_way.waiting_bytes + self._queued_bytes(now_us)

    def room_bytes(self, priority: Priority, now_us: int) -> int:
        """The largest payload that the worker's window and the data budget still have room for; 0 = none."""
        if len(self.flights) >= self._credit.frames:
            return 0
        if self.flights and not self.link.measured_bytes_per_us:
            return 0  # one frame at a time until one has shown what the link carries
        window_bytes = self._credit.bytes - self._under_way.size_bytes
        budget_bytes = self.budget.left_bytes(priority, now_us)
        if budget_bytes is None:
            return window_bytes
        overhead_bytes = (self._under_way.waiting + 1) * FRAME_OVERHEAD_BYTES
        return min(window_bytes, budget_bytes - self._under_way.waiting_bytes - overhead_bytes)

    def sample_due(self, remaining_us: float, now_us: int) -> bool:
        """Nothing was sent for a while: without samples a link never looks better than it did. Not while what is
        out has not crossed, or the round trip alone takes longer than a frame has; over budget a metered link is
        left to the probes."""
        if self.metered and not self.breaker.in_budget:
            return False
        least_us = self.link.rtt_now_us(now_us) + self.link.load.service_p50_us
        waiting = any(not flight.overdue for flight in self.flights.values()) or bool(
            self._under_way.unanswered(self._connection)
        )
        return not waiting and least_us < remaining_us and self.idle_for(self._sample_every_us, now_us)

    def found_short(self, now_us: int) -> None:
        """A frame that an empty link would have taken found it full."""
        self._short_us = now_us

    def idle_for(self, span_us: int, now_us: int) -> bool:
        return now_us - self._last_sent_us >= span_us

    def yields(self, stream: str, now_us: int) -> bool:
        """Whether `stream` should leave the link to others: it is short, and they had less than their share."""
        short = self._short_us is not None and now_us - self._short_us < SHORT_SPAN_US
        return short and self.share.ahead(stream, now_us)

    def forecast(self, now_us: int, *, but: Job | None = None) -> Forecast:
        """What the link would do to a frame sent now; to `but`, which waits to be sent, if it is given."""
        waiting_bytes = self._under_way.waiting_bytes
        own = None if but is None else but.flights.get(self.name)
        if own is not None and own.sent_us is None:
            waiting_bytes -= own.size_bytes
        unanswered = self._under_way.unanswered(self._connection)
        return self.link.forecast(now_us, unanswered=unanswered, waiting_bytes=waiting_bytes)

    # -- what goes out ------------------------------------------------------------------------------------

    def take(self, job: Job, *, size_bytes: int, probe: bool, forced: bool, now_us: int) -> None:
        """The frame will go this way, once encoded."""
        flight = Flight(link=self.name, size_bytes=size_bytes, probe=probe, forced=forced)
        if job.key in self.flights:
            self.drop(job)
        self.flights[job.key] = job.flights[self.name] = flight
        self._under_way.add(flight)
        self.share.charge(job.key[0], size_bytes, now_us)
        self._last_sent_us = now_us
        if probe:
            self.breaker.probe_sent(job.key, now_us)

    def sent(self, job: Job, now_us: int) -> None:
        """The frame leaves now, `job.size_bytes` long."""
        flight = job.flights[self.name]
        flight.ahead_bytes = self._queued_bytes(now_us)
        if flight.forced:
            flight.p = self.forecast(now_us, but=job).p_on_time(job.size_bytes, job.answer_by_us - now_us)
        flight.connection = self._connection
        flight.nominal = self.link.nominal(
            size_bytes=job.size_bytes, in_flight_bytes=flight.ahead_bytes, now_us=now_us
        )
        self._under_way.sent(flight, size_bytes=job.size_bytes, now_us=now_us)
        self._frames += 1
        bytes_per_us = self.link.bytes_per_us
        self._free_us = max(self._free_us, float(now_us)) + job.size_bytes / bytes_per_us
        self.budget.spend(job.size_bytes + FRAME_OVERHEAD_BYTES, now_us)

    def drop(self, job: Job) -> Flight | None:
        """The frame is no longer waited for on this way."""
        flight = self.flights.pop(job.key, None)
        if flight is not None:
            self._under_way.drop(flight)
        return job.flights.pop(self.name, None)

    def end(self, job: Job, now_us: int) -> Flight | None:
        """The frame will not be answered on this way; a failed probe speaks against the link."""
        flight = self.drop(job)
        if flight is not None and flight.probe:
            self.breaker.probe_ended(job.key, rtt_us=None, now_us=now_us)
        return flight

    def ping(self, now_us: int) -> int | None:
        """The nonce of a ping to send now."""
        ahead_us = self._under_way.ahead_bytes / self.link.bytes_per_us
        spacing_us = self.budget.spacing_us(PING_BYTES, now_us)
        nonce = self.breaker.ping_due(now_us, excused_us=int(STALL * ahead_us), spacing_us=spacing_us)
        if nonce is not None:
            self.budget.spend(PING_BYTES, now_us)
        return nonce

    # -- what comes back ----------------------------------------------------------------------------------

    def heard(self, load: Load, now_us: int, *, of_a_frame: bool) -> None:
        """The worker answered; a frame that came back did not vanish."""
        if load.window_frames:
            self._credit = replace(self._credit, frames=load.window_frames)
        self.link.observe_load(load, now_us)
        self.breaker.heard(now_us)
        if of_a_frame:
            self._vanished = 0
            self._replies += 1
            self._mute_connections = 0

    def arrived(self, job: Job, timing: WorkerTiming, now_us: int) -> None:
        """A result of a frame that was under way here."""
        flight = self.drop(job)
        if flight is None or flight.sent_us is None:
            return
        self._under_way.crossed(flight.sent_us)
        own_us = self._own_wait_us(flight.sent_us, timing)
        rtt_us = self.link.observe_frame(
            size_bytes=flight.size_bytes,
            sent_us=flight.sent_us,
            arrived_us=now_us,
            nominal=flight.nominal,
            timing=timing,
            own_us=own_us,
            frame=job.key,
        )
        rtt_us = max(0, rtt_us - own_us)  # own bytes queued ahead are not the link's round trip
        self.breaker.round_trip(rtt_us, now_us, live=True)
        if flight.probe:
            self.breaker.probe_ended(job.key, rtt_us=rtt_us, now_us=now_us)
        else:
            self.breaker.frame_answered(rtt_us=rtt_us, sent_us=flight.sent_us, now_us=now_us)

    def overdue(self, job: Job, flight: Flight, now_us: int) -> None:
        """An unanswered frame at its answer time counts against the link, once."""
        if flight.sent_us is None:
            return
        flight.overdue = True
        self.link.observe_overdue(
            sent_us=flight.sent_us, nominal=flight.nominal, now_us=now_us, frame=job.key
        )
        self.breaker.frame_overdue(now_us)
        if flight.probe:
            self.breaker.probe_ended(job.key, rtt_us=None, now_us=now_us)

    def look_for_vanished(self, flight: Flight, now_us: int) -> None:
        """A frame of which nothing was heard for long, while pings sent after it were answered at once, is
        gone; several in a row and the link carries nothing large."""
        if flight.vanished or not flight.overdue or flight.sent_us is None:
            return
        if now_us - flight.sent_us < VANISHED_AFTER_US or self._prompt_ping_us <= flight.sent_us:
            return
        flight.vanished = True
        self._vanished += 1
        if self._vanished >= VANISHED_FRAMES:
            self._vanished = 0
            self.breaker.frames_vanish(now_us)

    def pong(self, nonce: int, *, resident_us: int, load: Load, credit: Credit | None, now_us: int) -> None:
        """A ping's answer; our own frames queued ahead of it do not count against the link."""
        if credit is not None:
            self._credit = credit
        self.heard(load, now_us, of_a_frame=False)
        sent_us = self.breaker.pings.sent_us(nonce)
        if sent_us is None or not self.breaker.pings.answered(nonce, now_us):
            return
        ahead_bytes = self._under_way.sent_bytes(sent_us)
        self._under_way.crossed(sent_us)
        self._pongs += 1
        raw_us = now_us - sent_us - resident_us
        if raw_us <= self._band_us:
            self._prompt_ping_us = max(self._prompt_ping_us, sent_us)
        rtt_us = max(0, int(raw_us - STALL * ahead_bytes / self.link.bytes_per_us))
        self.link.observe_rtt(raw_us, now_us, own_us=raw_us - rtt_us)
        self.breaker.round_trip(rtt_us, now_us, live=False)

    def welcomed(self, connection: int, credit: Credit, now_us: int) -> None:
        # Where large packets are lost, TCP also keeps back the pings behind them: each new connection answers
        # pings until its first frame, then falls silent.
        if self._pongs and self._frames and not self._replies:
            self._mute_connections += 1
        self._pongs = self._replies = self._frames = 0
        if self._mute_connections >= MUTE_CONNECTIONS:
            self.breaker.frames_vanish(now_us)
        self._connection = connection
        self._credit = credit
        self._last_body_us = -(1 << 62)  # another worker may speak now, on another clock
        self._one_way = MinWindow(RTT_MIN_SPAN_US)
        self.breaker.welcomed(now_us)

    def left_behind(self, job: Job, flight: Flight, now_us: int) -> bool:
        """Whether an answered frame is no longer waited for: another connection, or too long ago. Its result
        may still come and be late; it no longer fills the link."""
        if job.given is None or flight.sent_us is None:
            return False
        return flight.connection != self._connection or now_us - flight.sent_us >= FORGET_US

    def _own_wait_us(self, sent_us: int, timing: WorkerTiming) -> int:
        """How long a frame's head waited for the own frame before it: the lane is one ordered stream, so no
        head arrives before that body. One-way delays are compared with their minimum only, which leaves
        neither clock's offset in."""
        delay_us = timing.head_mono_us - sent_us
        self._one_way.add(delay_us, sent_us)
        least_us = self._one_way.value(sent_us)
        undelayed_us = sent_us + int(delay_us if least_us is None else least_us)
        wait_us = max(0, min(timing.head_mono_us, self._last_body_us) - undelayed_us)
        self._last_body_us = timing.body_mono_us
        return wait_us

    def _queued_bytes(self, now_us: int) -> int:
        """What was sent and has not crossed: by the bandwidth, and never more than nothing answered speaks
        for. A lane is one ordered stream: what was sent before something answered has crossed."""
        if self._free_us <= now_us:
            return 0
        left = (self._free_us - now_us) * self.link.bytes_per_us
        return min(int(left), self._under_way.ahead_bytes)
