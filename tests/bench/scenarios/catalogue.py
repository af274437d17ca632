"""The scenarios: what happens to link, worker and gateway, as data. Times in s from the first frame of a run of 60 s.

A shorter run is squeezed, so that everything still happens in it (`squeezed`), but for what repeats by itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from tests.support.netlab import SHARED

LONG_S = 60.0
Setting = Mapping[str, Any]


class Act(StrEnum):
    """What no emulated link can do; `events.py` does it."""

    RESET = "reset everything"
    NO_RESET = "reset no more"
    SLOW = "worker 3x slow"
    QUICK = "worker as before"
    KILL = "kill the worker"
    RESTART = "start the worker"
    FREEZE = "SIGSTOP to the worker"
    THAW = "SIGCONT to the worker"
    LOAD = "others send twice what the worker can do"
    NO_LOAD = "others stop"
    HOG = "a hog on the gateway's core"
    NO_HOG = "the hog ends"
    LATER = "wall clock 5 s forward"
    EARLIER = "wall clock 5 s back"
    LOSE_LARGE = "packets above 600 bytes are lost"
    LOSE_NONE = "they pass again"
    FORGET = "the NAT forgets every flow"
    MOVE = "the worker's name leads elsewhere"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """`up`, `down`: of netlab's profile; `steps`: its schedule, with `repeat_s` over and over; `acts`: by moment.

    `bad`: spans in which nobody can be answered far in time, from which falling back and returning are measured. An
    act that takes time (a worker's start) ends its span when it is done. `trace`: of the uplink, what `simulate` reads.
    """

    name: str
    words: str
    up: Setting
    down: Setting
    steps: Sequence[Setting] = ()
    repeat_s: float | None = None
    acts: Sequence[tuple[float, Act]] = ()
    bad: Sequence[tuple[float, float]] = ()
    by_name: bool = False
    trace: Path | None = None

    def squeezed(self, run_s: float) -> "Scenario":
        """For a run of `run_s`."""
        factor = min(1.0, run_s / LONG_S)
        if factor == 1.0:
            return self
        steps = self.steps if self.repeat_s else [{**step, "t": step["t"] * factor} for step in self.steps]
        return replace(
            self,
            steps=steps,
            acts=[(at_s * factor, act) for at_s, act in self.acts],
            bad=[(from_s * factor, to_s * factor) for from_s, to_s in self.bad],
        )

    @property
    def profile(self) -> dict[str, Any]:
        return {"name": self.name, "mtu": 1500, "up": dict(self.up), "down": dict(self.down)}

    @property
    def schedule(self) -> Any:
        """As netlab plays it."""
        steps = [dict(step) for step in self.steps]
        return {"repeat_s": self.repeat_s, "steps": steps} if self.repeat_s else steps


def _way(rtt_ms: float = 20.0, mbit: float = 50.0, **more: Any) -> Setting:
    return {"delay_ms": rtt_ms / 2, "rate_mbit": mbit, "queue_ms": 100} | more


def _made(name: str, words: str, way: Setting | None = None, **more: Any) -> Scenario:
    both = _way() if way is None else way
    return Scenario(name=name, words=words, up=both, down=both, **more)


def _oscillating(every_s: float) -> Scenario:
    good = {"delay_ms": 10, "rate_mbit": 50, "queue_bytes": 125_000}
    poor = {"delay_ms": 80, "rate_mbit": 4, "queue_bytes": 125_000}
    return _made(
        f"oscillate_{every_s:g}s",
        f"RTT 20 ms at 50 Mbit/s and RTT 160 ms at 4 Mbit/s, {every_s:g} s each, over and over",
        good,
        steps=({"t": 0, "both": good}, {"t": every_s, "both": poor}),
        repeat_s=2 * every_s,
    )


def _lossy(percent: float) -> Scenario:
    burst = {"loss": percent / 100, "len": 4}
    return _made(
        f"loss_{percent:g}", f"{percent:g} % lost each way, in bursts of 4 packets", _way(burst=burst)
    )


def _lte(name: str, file: str, words: str) -> Scenario:
    """The trace begins with the first frame, so that every policy meets the same piece of it."""
    way = {"delay_ms": 15, "rate_mbit": 40, "queue_bytes": 150_000}
    trace = SHARED / "data/traces" / file
    return _made(name, words, way, steps=({"t": 0, "up": {"trace": str(trace)}},), trace=trace)


def _set(at_s: float, **way: Any) -> Setting:
    return {"t": at_s, "both": way}


_BAD = ((15.0, 45.0),)

SCENARIOS = (
    _made("steady", "RTT 20 ms, 50 Mbit/s, all the time"),
    _made(
        "rtt_step",
        "RTT 20 → 200 → 20 ms",
        steps=(_set(15, delay_ms=100), _set(45, delay_ms=10)),
        bad=_BAD,
    ),
    _made(
        "outage_blackhole",
        "30 s in which every packet is lost",
        steps=(_set(15, outage="drop"), _set(45, outage=False)),
        bad=_BAD,
    ),
    _made(
        "outage_reset",
        "30 s in which every packet is answered by a reset",
        acts=((15, Act.RESET), (45, Act.NO_RESET)),
        bad=_BAD,
    ),
    _oscillating(0.2),
    _oscillating(1),
    _oscillating(5),
    _made(
        "rate_collapse",
        "10 → 0.5 → 10 Mbit/s, a buffer of 60 kB",
        {"delay_ms": 10, "rate_mbit": 10, "queue_bytes": 60_000},
        steps=(_set(15, rate_mbit=0.5), _set(45, rate_mbit=10)),
        bad=_BAD,
    ),
    _lossy(1),
    _lossy(5),
    _lte("lte_verizon", "Verizon-LTE-short.up", "a recorded LTE uplink, 6 Mbit/s in the mean, RTT 30 ms"),
    _lte(
        "lte_att",
        "ATT-LTE-driving-2016.up",
        "LTE uplink from a moving car, 1.9 Mbit/s in the mean, RTT 30 ms",
    ),
    _made("worker_slow", "worker 3 times as slow for 30 s", acts=((15, Act.SLOW), (45, Act.QUICK)), bad=_BAD),
    _made(
        "worker_killed",
        "worker killed, started again after 10 s",
        acts=((20, Act.KILL), (30, Act.RESTART)),
        bad=((20, 30),),
    ),
    _made(
        "worker_frozen",
        "worker stopped by SIGSTOP for 20 s",
        acts=((20, Act.FREEZE), (40, Act.THAW)),
        bad=((20, 40),),
    ),
    _made(
        "worker_overloaded",
        "other agents send twice what the worker can do, for 30 s",
        acts=((15, Act.LOAD), (45, Act.NO_LOAD)),
    ),
    _made(
        "cpu_hog", "another program on the gateway's core for 30 s", acts=((15, Act.HOG), (45, Act.NO_HOG))
    ),
    _made(
        "clock_jump",
        "the gateway's wall clock jumps 5 s forward, later 5 s back",
        acts=((20, Act.LATER), (40, Act.EARLIER)),
    ),
    _made(
        "mtu_blackhole",
        "packets above 600 bytes are lost for 20 s, small ones pass",
        acts=((20, Act.LOSE_LARGE), (40, Act.LOSE_NONE)),
        bad=((20, 40),),
    ),
    _made(
        "nat_rebind",
        "a NAT forgets every flow, twice",
        acts=((20, Act.FORGET), (40, Act.FORGET)),
        bad=((20, 20), (40, 40)),
    ),
    _made(
        "dns_change",
        "the worker moves to another address, its name follows",
        acts=((30, Act.MOVE),),
        bad=((30, 30),),
        by_name=True,
    ),
)
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}


def chosen(words: str) -> list[Scenario]:
    """By a list with commas of names or their beginnings; all for an empty one. KeyError with what there is."""
    if not words:
        return list(SCENARIOS)
    found: dict[str, Scenario] = {}
    for word in words.split(","):
        matching = [s for s in SCENARIOS if s.name.startswith(word)]
        if not matching:
            raise KeyError(f"no scenario begins with {word!r}; there are {', '.join(BY_NAME)}")
        found |= {s.name: s for s in matching}
    return list(found.values())
