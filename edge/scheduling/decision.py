"""What to do with one frame: the best of all links × rungs, by the policy's value, or near.

    remaining = answer by − now − encode p95 (answer by = deadline − margin, which covers the wake-up)
    value     = p(on time) · (accuracy(rung) − accuracy(fallback)) − byte_price · kB − load_price · queue

Bytes in flight stay within bandwidth × usable budget: a frame that could not cross by then is no option.
"""

from collections.abc import Mapping, Sequence
from math import inf
from typing import NamedTuple

from edge.scheduling.far_way import FarWay
from edge.scheduling.forecast import Forecast
from edge.scheduling.job import RESERVED, Job
from edge.scheduling.policies import HEDGED, IGNORES_BAND, POLICIES, View
from edge.scheduling.settings import SchedulerSettings

AS_GOOD = 0.01
"""Links whose best values are this close are equally good; then the earlier completion counts."""
NEVER_US = 1 << 62
METERED_WORTH = 0.05
"""How much more accuracy a link that costs money has to be worth than one that does not."""


Chance = tuple[float, int, int, int, float, float]
"""A rung for one frame, whatever the link: the most it can be worth, rung, bytes, µs that remain once encoded, gain
in accuracy, price of its bytes."""


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
        self._ignores_band = settings.policy in IGNORES_BAND
        accuracies = [rung.accuracy for rung in settings.ladder]
        self._accuracies = accuracies
        self._best_first = sorted(range(len(accuracies)), key=lambda i: -accuracies[i])
        self._turn = 0
        self._chances: Sequence[Chance] = ()  # of the last frame
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
        self._chances = chances = self._take_chances(job, fallback, now_us)
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
        return any(
            size_bytes <= room_bytes and forecast.p_on_time(size_bytes, remaining_us) < min_p
            for forecast, room_bytes in self._looked
            for _, _, size_bytes, remaining_us, _, _ in self._chances
        )

    # -- inside -------------------------------------------------------------------------------------------

    @property
    def _any_in_budget(self) -> bool:
        return any(way.breaker.connected and way.breaker.in_budget for way in self._ways.values())

    def _take_chances(self, job: Job, fallback: float, now_us: int) -> list[Chance]:
        """What is the same on every link: the rungs that may be worth it, the one that may be worth most first."""
        time_us = job.answer_by_us - now_us
        byte_price = self._settings.byte_price / 1000
        accuracies, timed = self._accuracies, self._timed
        sizes_bytes, encodes_us = job.cost.sizes_bytes, job.cost.encodes_us
        chances = []
        for rung in self._best_first:
            size_bytes = sizes_bytes[rung]
            gain = accuracies[rung] - fallback
            price = byte_price * size_bytes
            # No policy that weighs time values a rung above this: most rungs need no closer look.
            most = gain - price if timed else inf
            if most > 0:
                chances.append((most, rung, size_bytes, time_us - encodes_us[rung], gain, price))
        if timed:
            chances.sort(reverse=True)
        return chances

    def _on(
        self, way: FarWay, job: Job, chances: Sequence[Chance], *, fallback: float, floor: float, now_us: int
    ) -> Found | None:
        """The best rung on one link, if it is worth more than `floor`."""
        stream = job.key[0]
        way.share.asked(stream, job.priority, now_us)
        if way.yields(stream, now_us):
            return None
        room_bytes = way.room_bytes(job.priority, now_us)
        others = bool(way.flights)
        forecast: Forecast | None = None
        timed = self._timed
        best: tuple[int, float, int, Forecast] | None = None
        best_value = floor
        crowded = False
        low_p, low_bytes, low_us = 1.0, 0, NEVER_US
        last_p, last_bytes, last_us = 1.0, 0, NEVER_US
        for most, rung, size_bytes, remaining_us, gain, price in chances:
            if most <= best_value:
                break
            if size_bytes > room_bytes:
                crowded = crowded or others
                continue
            if forecast is None:
                forecast = way.forecast(now_us)
                self._looked.append((forecast, room_bytes))
                low_bytes = job.cost.sizes_bytes[job.cost.lowest]
                low_us = job.answer_by_us - now_us - job.cost.encodes_us[job.cost.lowest]
                low_p = forecast.p_on_time(low_bytes, low_us)
            if timed:
                # Larger and with less time than another is no likelier: most rungs need no closer look than this.
                p = low_p if size_bytes >= low_bytes and remaining_us <= low_us else 1.0
                if last_p < p and size_bytes >= last_bytes and remaining_us <= last_us:
                    p = last_p
                if p * gain - price <= best_value:
                    if others and not crowded:
                        crowded = p == 0.0 or not forecast.possible(size_bytes, remaining_us)
                    continue
            p = forecast.p_on_time(size_bytes, remaining_us)
            if timed:
                last_p, last_bytes, last_us = p, size_bytes, remaining_us
                if p * gain - price <= best_value:
                    crowded = crowded or (others and p == 0.0)
                    continue
            value = self._worth(way, job, rung, p, fallback, near_waits=job.near is RESERVED)
            if value > best_value:
                best, best_value = (rung, p, size_bytes, forecast), value
        if crowded:
            way.found_short(now_us)
        if best is None:
            return None
        rung, p, size_bytes, forecast = best
        return Option(way.name, rung, best_value, p, size_bytes), forecast

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
