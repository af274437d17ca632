"""When frames come: gaps in seconds between the frames of one agent, drawn from seeded dice.

Poisson: every moment is as likely as any other, the usual model of many independent cameras behind their gates.
Bursty: quiet, then four times the mean rate, as when something moves; both phases exponential (Heffes and Lucantoni's
two-state Markov-modulated Poisson process with a silent state). Both have the mean rate they are asked for.
"""

import random
from collections.abc import Callable, Iterator

ON_S = 0.1
PEAK = 4.0

Arrivals = Callable[[float, random.Random], Iterator[float]]


def poisson(rate: float, dice: random.Random) -> Iterator[float]:
    """`rate` frames a second."""
    while True:
        yield dice.expovariate(rate)


def bursty(rate: float, dice: random.Random) -> Iterator[float]:
    """`rate` frames a second in the mean, all of them in phases of `ON_S` in the mean at `PEAK` times the rate."""
    begins_on = dice.random() < 1 / PEAK
    quiet_s = 0.0 if begins_on else dice.expovariate(1 / (ON_S * (PEAK - 1)))
    left_s = dice.expovariate(1 / ON_S)
    while True:
        gap_s = dice.expovariate(PEAK * rate)
        # Where the phase ends first, what is left of the gap waits for the next one: it has no memory.
        while gap_s > left_s:
            gap_s -= left_s
            quiet_s += left_s + dice.expovariate(1 / (ON_S * (PEAK - 1)))
            left_s = dice.expovariate(1 / ON_S)
        left_s -= gap_s
        yield quiet_s + gap_s
        quiet_s = 0.0


ARRIVALS: dict[str, Arrivals] = {"poisson": poisson, "bursty": bursty}
