"""Frames under way: chosen, encoded, sent over one link or two, and handed to near when far fails.

A frame whose far ways are over is near's at once; without near it may try another link. A cancelled twin,
a frame left behind or a dead link never keeps a frame waiting.
"""

from collections.abc import Mapping

from edge.scheduling.actions import CancelFar, Encode, SendFrame
from edge.scheduling.decision import Decision, Option
from edge.scheduling.far.way import FarWay
from edge.scheduling.job import NONE, RESERVED, SURE_P, Job
from edge.scheduling.job_table import JobTable
from edge.scheduling.policies import HEDGED, IGNORES_BAND, WITHOUT_FAR
from edge.scheduling.settings import SchedulerSettings
from pipelines.result import ShedReason

DUPLICATE_BURST_BYTES = 200_000
SPARE_PROBE_EVERY_US = 1_000_000
"""How often a frame that goes over a good link is also sent as a probe over one that is over budget."""


class Offload:
    def __init__(
        self, settings: SchedulerSettings, table: JobTable, ways: Mapping[str, FarWay], decision: Decision
    ) -> None:
        self._settings = settings
        self._table = table
        self._ways = ways
        self._decision = decision
        self._hedged = settings.policy in HEDGED and settings.hedge != "never"
        self._probes = settings.policy not in WITHOUT_FAR
        self._duplicate_bytes = float(DUPLICATE_BURST_BYTES)

    def choose_making_room(self, job: Job, *, near_exists: bool, now_us: int) -> Option | None:
        """The best option, None with `far_reason` set. Unless far is sure to come, near time is made for the frame: less
        important ones go far then, or are shed."""
        option = self._asked(job, near_exists=near_exists, now_us=now_us)
        sure = option is not None and (not self._hedged or option.p >= SURE_P)
        if job.near is NONE and not sure and self._make_room(job, now_us) and option is not None:
            return self._asked(job, near_exists=near_exists, now_us=now_us)
        return option

    def start(self, job: Job, option: Option, now_us: int) -> None:
        """Reserve the way and order the payload, unless there is one already."""
        job.rung = option.rung
        job.far_reason = ""
        self._take(job, option, now_us)
        if not option.probe:
            self._add_twins(job, option, now_us)
        if not (self._hedged or option.forced) and job.near is RESERVED:
            self._table.let_go(job)
        # What is sent to learn is hardly ever back in time: near does not wait for it while others wait for near.
        learns = option.forced and self._table.near_is_short(now_us)
        job.eager = self._hedged and (learns or self._settings.hedge == "immediate")
        self._table.out.append(Encode(job.key, option.rung))

    def encoded(self, job: Job, now_us: int) -> None:
        """Send the payload unless it is too late, or its real size makes it not worth it."""
        for flight in [f for f in job.flights.values() if f.sent_us is None]:
            way = self._ways[flight.link]
            budget_us = job.answer_by_us - now_us - way.link.rtt_min_us(now_us)
            fallback = self._table.fallback(job)
            if job.given is not None:
                way.end(job, now_us)
            elif not way.breaker.connected or not (flight.probe or self._decision.usable(way)):
                self.failed(job, way, way.breaker.reason or "link over budget", now_us)
            elif budget_us <= 0:
                self.failed(job, way, "encoded too late", now_us)
            elif not (
                flight.forced or self._decision.still_worth(job, way, fallback, now_us)
            ) and not self._alone(job, fallback, now_us):
                self.failed(job, way, "near is worth more now", now_us)
            else:
                self._send(job, way, budget_us, now_us)

    def failed(self, job: Job, way: FarWay, reason: str, now_us: int) -> None:
        """This way is over for the frame: near takes over at once, unless another way is still hoped for."""
        if way.end(job, now_us) is None or job.given is not None:
            return
        job.far_reason = reason
        if not job.far_hoped:
            job.eager = True
        if not job.far_open and job.near is NONE and not self._table.reserve(job, now_us):
            self._resend(job, now_us)
        self._table.settle(job, now_us)

    def answered(self, job: Job) -> None:
        """A far answer was given: what is still out need not be done. Probes go on, they measure."""
        for flight in [f for f in job.flights.values() if not f.probe]:
            if flight.sent_us is not None:
                self._table.out.append(CancelFar(job.key, flight.link))
            self._ways[flight.link].drop(job)

    def forget(self, job: Job, now_us: int) -> None:
        """The frame is gone without an answer."""
        for link, flight in list(job.flights.items()):
            if flight.sent_us is not None:
                self._table.out.append(CancelFar(job.key, link))
            self._ways[link].end(job, now_us)

    def abandon(self, way: FarWay, now_us: int) -> None:
        """Over budget: no open frame waits for this way any longer, except probes."""
        for key, flight in list(way.flights.items()):
            job = self._table.get(key)
            if job is None or flight.probe or flight.hopeless or job.given is not None:
                continue
            flight.hopeless = True
            if not job.far_hoped:
                job.eager = True
                job.far_reason = way.breaker.reason
                if job.near is NONE:
                    self._resend(job, now_us)
                self._table.settle(job, now_us)

    def due(self, job: Job, now_us: int) -> None:
        """Flights out past the answer's time count against their link; old ones are no longer waited for."""
        for flight in list(job.flights.values()):
            way = self._ways[flight.link]
            if flight.sent_us is not None and not flight.overdue and now_us >= job.answer_by_us:
                way.overdue(job, flight, now_us)
            if flight.overdue:
                way.look_for_vanished(flight, now_us)
            if job.given is not None and way.left_behind(job, flight, now_us):
                way.end(job, now_us)

    # -- inside -------------------------------------------------------------------------------------------

    def _asked(self, job: Job, *, near_exists: bool, now_us: int) -> Option | None:
        option = self._option(job, near_exists=near_exists, now_us=now_us)
        if option is None:
            job.far_reason = self._why_not(job, now_us)
        return option

    def _why_not(self, job: Job, now_us: int) -> str:
        """Why `_option` found nothing just now, in the words of the record; "" under a policy that never asks."""
        if not self._probes:
            return ""
        reasons = set()
        for way in self._ways.values():
            if not self._decision.usable(way):
                reasons.add(way.breaker.reason)
            elif (left_bytes := way.budget.left_bytes(job.priority, now_us)) is not None and left_bytes <= 0:
                reasons.add("data budget used up")
            else:
                return (
                    "far would not be back in time" if self._decision.unlikely else "near is worth more now"
                )
        return ", ".join(sorted(reasons))

    def _option(self, job: Job, *, near_exists: bool, now_us: int) -> Option | None:
        """The best option, else a probe or a sample if near stands behind it (or nobody ever does)."""
        if not self._probes:
            return None
        option = self._decision.best(job, fallback=self._table.fallback(job), now_us=now_us)
        if option is not None:
            return option
        if near_exists and job.near is NONE:
            return None
        return self._decision.probe(job, now_us) or self._decision.sample(job, now_us)

    def _make_room(self, job: Job, now_us: int) -> bool:
        """Near time for `job`; who loses theirs by it goes far if there is any use in it, else is tracked or shed."""
        for lost in self._table.make_room(job, now_us, hopeful_only=False):
            option = None if lost.far_open else self._option(lost, near_exists=True, now_us=now_us)
            if option is not None:
                self.start(lost, option, now_us)
            elif not self._table.carrying.trackable(lost.key):
                self.forget(lost, now_us)
                self._table.shed(lost, ShedReason.PRIORITY)
                continue
            self._table.settle(lost, now_us)
        return job.near is not NONE

    def _take(self, job: Job, option: Option, now_us: int) -> None:
        self._ways[option.link].take(
            job, size_bytes=option.size_bytes, probe=option.probe, forced=option.forced, now_us=now_us
        )
        job.flights[option.link].p = option.p

    def _add_twins(self, job: Job, option: Option, now_us: int) -> None:
        """The same payload over another link: for frames that matter, paid for by what was sent before, and
        now and then to learn whether a link is back, or whether one that costs nothing would do as well."""
        if len(self._ways) < 2:
            return
        self._duplicate_bytes = min(
            DUPLICATE_BURST_BYTES,
            self._duplicate_bytes + self._settings.duplicate_share * option.size_bytes,
        )
        if job.priority in self._settings.duplicate and self._duplicate_bytes >= option.size_bytes:
            second = self._decision.second(job, option, now_us)
            if second is not None:
                self._duplicate_bytes -= option.size_bytes
                self._take(job, second, now_us)
        pays = self._ways[option.link].metered
        remaining_us = job.answer_by_us - now_us - job.cost.encode_us(option.rung)
        for way in self._ways.values():
            if way.name in job.flights:
                continue
            asks = way.breaker.probe_due(now_us) and way.idle_for(SPARE_PROBE_EVERY_US, now_us)
            learns = pays and not way.metered and self._decision.usable(way)
            learns = learns and way.sample_due(remaining_us, now_us)
            if (asks or learns) and way.room_bytes(job.priority, now_us) >= option.size_bytes:
                way.take(job, size_bytes=option.size_bytes, probe=True, forced=True, now_us=now_us)

    def _send(self, job: Job, way: FarWay, budget_us: int, now_us: int) -> None:
        way.sent(job, now_us)
        flight = job.flights[way.name]
        self._table.out.append(SendFrame(job.key, way.name, budget_us, flight.probe, flight.p))

    def _alone(self, job: Job, fallback: float, now_us: int) -> bool:
        """Whether far is all there is for `job`: near has no time for it and no answer can be carried forward. A small
        chance is better than none then."""
        return fallback <= 0 and job.near is NONE and not self._table.reserve(job, now_us)

    def _resend(self, job: Job, now_us: int) -> None:
        """Near cannot help: the payload may still make it over another link."""
        far_only = self._settings.policy in IGNORES_BAND and len(self._ways) > 1
        if not job.size_bytes or not (self._hedged or far_only):
            return
        option = self._decision.again(job, now_us)
        if option is not None:
            self._take(job, option, now_us)
            way = self._ways[option.link]
            self._send(job, way, job.answer_by_us - now_us - way.link.rtt_min_us(now_us), now_us)
