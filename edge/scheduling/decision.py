"""What to do with one frame: the best of all links × rungs, by the policy's value, or near.

    remaining = answer by − now − encode p95 (answer by = deadline − margin, which covers the wake-up)
    value     = p(on time) · (accuracy(rung) − accuracy(fallback)) − byte_price · kB − load_price · queue

Bytes in flight stay within bandwidth × usable budget: a frame that could not cross by then is no option.
"""

from collections.abc import Mapping, Sequence
from math import inf
from typing import NamedTuple

from edge.scheduling.chances import Chances
from edge.scheduling.far.forecast import Forecast
from edge.scheduling.far.way import FarWay
from edge.scheduling.job import RESERVED, Job
from edge.scheduling.policies import HEDGED, IGNORES_BAND, POLICIES, View
from edge.scheduling.settings import SchedulerSettings

AS_GOOD = 0.01
"""Links whose best values are this close are equally good; then the earlier completion counts."""
METERED_WORTH = 0.05
"""How much more accuracy a link that costs money has to be worth than one that does not."""


class Option(NamedTuple):
    """Send the frame at `rung` over `link`. `p`: probability that its answer is on time. `probe`, `forced`: sent to
    learn about the link, whatever it is worth."""

    link: str
    rung: int
    value: float
    p: float
    size_bytes: int
    probe: bool = False
    forced: bool = False


Found = tuple[Option, Forecast]
"""An option and the forecast of its link."""


class Decision:
    """Weighs options for one scheduler; holds no state but whose turn it is among equally good links."""

    def __init__(self, settings: SchedulerSettings, ways: Mapping[str, FarWay]) -> None:
        self._settings = settings
        self._ways = ways
        self._free_first = sorted(ways.values(), key=lambda way: way.metered)
        self._value = POLICIES[settings.policy]
        self._timed = settings.policy in HEDGED
        self._by_deadline = settings.policy == "deadline"
        self._ignores_band = settings.policy in IGNORES_BAND
        self._accuracies = [rung.accuracy for rung in settings.ladder]
        self._turn = 0
        self._chances: Chances | None = None  # of the last frame
        self._looked: list[tuple[Forecast, int]] = []  # at which links, and how much each had room for

    def usable(self, way: FarWay) -> bool:
        """Whether live frames may go this way at all: inside the band, and for policies that weigh how long a frame
        would take also outside it, as long as the link carries anything. A policy that ignores the band asks for it all
        the same while another link is inside."""
        breaker = way.breaker
        if self._timed and breaker.alive:
            return True
        return breaker.connected and (breaker.in_budget or (self._ignores_band and not self._any_in_budget))

    def best(self, job: Job, *, fallback: float, now_us: int) -> Option | None:
        """The best option of positive value, None if near is worth more."""
        found: list[Found] = []
        floor = 0.0
        self._looked.clear()
        chances = self._chances = Chances(
            job,
            accuracies=self._accuracies,
            fallback=fallback,
            byte_price=self._settings.byte_price,
            timed=self._timed,
            now_us=now_us,
        )
        pays = False
        for way in self._free_first:
            if not (self._timed and way.breaker.alive) and not self.usable(way):
                continue
            if way.metered and not pays and found:
                floor = max(option.value for option, _ in found) + METERED_WORTH
            one = self._on(way, job, chances, fallback=fallback, floor=floor, now_us=now_us)
            if one is not None:
                if way.metered and not pays:
                    pays, found = True, []  # worth its money: those that cost none are no match
                found.append(one)
                floor = max(floor, one[0].value - AS_GOOD)
        return self._of_two(found) if found else None

    def second(self, job: Job, first: Option, now_us: int) -> Option | None:
        """Another link for the payload of `first`: the one that is soonest there with p ≥ min_p."""
        remaining_us = job.answer_by_us - now_us - job.cost.encode_us(first.rung)
        return self._soonest(job, first.rung, first.size_bytes, remaining_us, now_us, but=first.link)

    def again(self, job: Job, now_us: int) -> Option | None:
        """Another link for a payload that is there already."""
        remaining_us = job.answer_by_us - now_us
        return self._soonest(job, job.rung, job.size_bytes, remaining_us, now_us)

    def still_worth(self, job: Job, way: FarWay, fallback: float, now_us: int) -> bool:
        """Asked again when the payload's real size is known: whether `job` is still worth sending."""
        if not self._timed:
            return True
        p = way.forecast(now_us, but=job).p_on_time(job.size_bytes, job.answer_by_us - now_us)
        job.flights[way.name].p = p
        return self._worth(way, job, job.rung, p, fallback, near_waits=False) > 0

    def sample(self, job: Job, now_us: int) -> Option | None:
        """A link that was not tried for a while, at the lowest rung; None if there is none. Where answers are carried
        forward one that comes too late is of use as well."""
        if not self._timed:
            return None
        rung = job.cost.lowest
        size_bytes = job.cost.size_bytes(rung)
        late_helps = self._settings.tracking is not None
        remaining_us = inf if late_helps else job.answer_by_us - now_us - job.cost.encode_us(rung)
        for way in self._ways.values():
            if (
                self.usable(way)
                and way.sample_due(remaining_us, now_us)
                and way.room_bytes(job.priority, now_us) >= size_bytes
            ):
                return Option(way.name, rung, 0.0, 0.0, size_bytes, forced=True)
        return None

    def probe(self, job: Job, now_us: int) -> Option | None:
        """A link over budget that is due for a probe, at the lowest rung."""
        rung = job.cost.lowest
        size_bytes = job.cost.size_bytes(rung)
        for way in self._ways.values():
            if way.breaker.probe_due(now_us) and way.room_bytes(job.priority, now_us) >= size_bytes:
                return Option(way.name, rung, 0.0, 0.0, size_bytes, probe=True, forced=True)
        return None

    def hopes(self, job: Job, now_us: int) -> bool:
        """Whether a link could still bring `job` back in time, were there room for it."""
        rung = job.cost.lowest
        remaining_us = job.answer_by_us - now_us - job.cost.encode_us(rung)
        return any(
            not self._timed or way.forecast(now_us).p_on_time(job.cost.size_bytes(rung), remaining_us) > 0.0
            for way in self._ways.values()
            if self.usable(way)
        )

    @property
    def unlikely(self) -> bool:
        """Whether the last frame, for which `best` found no option, had none because none was likely to be back in
        time."""
        min_p = self._settings.min_p
        rungs = () if self._chances is None else self._chances.rungs
        return any(
            size_bytes <= room_bytes and forecast.p_on_time(size_bytes, remaining_us) < min_p
            for forecast, room_bytes in self._looked
            for _, _, size_bytes, remaining_us, _, _ in rungs
        )

    # -- inside -------------------------------------------------------------------------------------------

    @property
    def _any_in_budget(self) -> bool:
        return any(way.breaker.connected and way.breaker.in_budget for way in self._ways.values())

    def _on(
        self, way: FarWay, job: Job, chances: Chances, *, fallback: float, floor: float, now_us: int
    ) -> Found | None:
        """The best rung on one link, if it is worth more than `floor`.

        Larger and with less time is no likelier to be in time. So the lowest rung bounds the others from above, and each
        one looked at bounds those it asks more than: most rungs need no closer look.
        """
        stream = job.key[0]
        way.share.asked(stream, job.priority, now_us)
        rungs = chances.rungs
        if not rungs or rungs[0][0] <= floor or way.yields(stream, now_us):
            return None
        room_bytes = way.room_bytes(job.priority, now_us)
        if room_bytes < chances.least_bytes:
            if way.flights:
                way.found_short(now_us)
            return None
        forecast = way.forecast(now_us)
        self._looked.append((forecast, room_bytes))
        timed, least_p = self._timed, self._settings.min_p
        low_bytes, low_us = chances.low_bytes, chances.low_us
        high_p = seen_p = forecast.p_on_time(low_bytes, low_us)
        seen_bytes: int = low_bytes
        seen_us: float = low_us
        load_price = self._settings.load_price * way.link.queued
        best: tuple[int, float, int] | None = None
        best_value = floor
        looked = tight = 0
        for most, rung, size_bytes, remaining_us, gain, price in rungs:
            if most <= best_value:
                break
            looked += 1
            if size_bytes > room_bytes:
                tight += 1
                continue
            p = high_p if size_bytes >= low_bytes and remaining_us <= low_us else 1.0
            if size_bytes <= seen_bytes and remaining_us >= seen_us:
                sure = p == seen_p  # no less likely than one looked at, and no likelier
            else:
                sure = False
                if seen_p < p and size_bytes >= seen_bytes and remaining_us <= seen_us:
                    p = seen_p
            if timed and (p < least_p or p * gain - price <= best_value):
                continue
            if not sure:
                p = seen_p = forecast.p_on_time(size_bytes, remaining_us)
                seen_bytes, seen_us = size_bytes, remaining_us
            if not self._by_deadline:
                value = self._worth(way, job, rung, p, fallback, near_waits=job.near is RESERVED)
            elif p >= least_p:
                value = p * gain - (price + load_price)
            else:
                continue
            if value > best_value:
                best, best_value = (rung, p, size_bytes), value
        if way.flights and (tight or (timed and self._hopeless(forecast, chances, looked))):
            way.found_short(now_us)
        if best is None:
            return None
        rung, p, size_bytes = best
        return Option(way.name, rung, best_value, p, size_bytes), forecast

    def _hopeless(self, forecast: Forecast, chances: Chances, looked: int) -> bool:
        """Whether one of the first `looked` rungs could not be back in time."""
        if forecast.possible(chances.most_bytes, chances.least_us):
            return False  # not even what asks most of the link
        return any(not forecast.possible(chance[2], chance[3]) for chance in chances.rungs[:looked])

    def _worth(
        self, way: FarWay, job: Job, rung: int, p: float, fallback: float, *, near_waits: bool
    ) -> float:
        settings = self._settings
        size_bytes = job.size_bytes or job.cost.size_bytes(rung)
        price = settings.byte_price * size_bytes / 1000 + settings.load_price * way.link.queued
        return self._value(
            View(
                p,
                self._accuracies[rung],
                fallback,
                price,
                settings.min_p,
                near_waits,
                job.near_confidence,
                settings.unsure_below,
            )
        )

    def _soonest(
        self, job: Job, rung: int, size_bytes: int, remaining_us: int, now_us: int, *, but: str = ""
    ) -> Option | None:
        found: list[Found] = []
        for way in self._ways.values():
            if way.name == but or not self.usable(way) or way.room_bytes(job.priority, now_us) < size_bytes:
                continue
            forecast = way.forecast(now_us)
            p = forecast.p_on_time(size_bytes, remaining_us)
            if p >= self._settings.min_p:
                found.append((Option(way.name, rung, 0.0, p, size_bytes), forecast))
        return _sooner(found) if found else None

    def _of_two(self, found: list[Found]) -> Option:
        """Two choices (Mitzenmacher 1996): of two equally good links the one predicted to be back sooner, so
        that many agents do not all run to the same worker. The pair moves on with every frame."""
        if len(found) == 1:
            return found[0][0]
        best = max(option.value for option, _ in found)
        good = [one for one in found if one[0].value >= best - AS_GOOD]
        if len(good) > 2:
            self._turn += 1
            first = self._turn % len(good)
            other = (first + 1 + self._turn // len(good) % (len(good) - 1)) % len(good)
            good = [good[first], good[other]]
        return _sooner(good)


def _sooner(found: Sequence[Found]) -> Option:
    """The option whose median time until its answer is there is the least."""
    if len(found) == 1:
        return found[0][0]
    return min(found, key=lambda one: one[1].completion_us(one[0].size_bytes))[0]
