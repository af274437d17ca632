"""The rungs one frame may be sent at, whatever the link: what is the same on every link is reckoned once a frame.

A rung is left out where not even a certain answer is worth its bytes. `most_bytes` in `least_us` is what no rung asks more
than, and the lowest rung what most ask no less than: between the two lies how likely any of them is on time.
"""

from collections.abc import Sequence
from math import inf

from edge.scheduling.job import Job

Chance = tuple[float, int, int, float, float, float]
"""The most it can be worth, rung, bytes, µs that remain once encoded, gain in accuracy, price of its bytes."""


class Chances:
    """`rungs`: the one that may be worth most first. `low_bytes` and `low_us`: of the lowest rung of the ladder."""

    __slots__ = ("least_bytes", "least_us", "low_bytes", "low_us", "most_bytes", "rungs")

    def __init__(
        self,
        job: Job,
        *,
        accuracies: Sequence[float],
        fallback: float,
        byte_price: float,
        timed: bool,
        now_us: int,
    ) -> None:
        """`byte_price` in accuracy a kB. A policy that is not `timed` takes the most accurate rung, whatever it costs."""
        cost = job.cost
        sizes_bytes, encodes_us = cost.sizes_bytes, cost.encodes_us
        time_us = job.answer_by_us - now_us
        columns = zip(range(len(accuracies)), accuracies, sizes_bytes, encodes_us)  # noqa: B905 - all by rung
        rungs: list[Chance]
        if timed:
            # No policy that weighs time values a rung above gain − price.
            rungs = [
                (gain - price, rung, size_bytes, time_us - encode_us, gain, price)
                for rung, accuracy, size_bytes, encode_us in columns
                if (gain := accuracy - fallback) > (price := byte_price * size_bytes / 1000)
            ]
            rungs.sort(reverse=True)
        else:
            rungs = [
                (inf, rung, size_bytes, time_us - encode_us, accuracy - fallback, 0.0)
                for rung, accuracy, size_bytes, encode_us in columns
            ]
            rungs.sort(key=lambda chance: -chance[4])
        self.rungs = rungs
        all_bytes = [chance[2] for chance in rungs]
        self.least_bytes = min(all_bytes, default=0)
        self.most_bytes = max(all_bytes, default=0)
        self.least_us = min([chance[3] for chance in rungs], default=0)
        self.low_bytes = sizes_bytes[cost.lowest]
        self.low_us = time_us - encodes_us[cost.lowest]
