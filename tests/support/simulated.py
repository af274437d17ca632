"""Small scenarios for tests of the simulation: a known ladder, a known machine, any link."""

from typing import Any

from edge.scheduling import policies
from edge.scheduling.rung import Rung
from edge.scheduling.settings import SchedulerSettings, StreamSettings
from nearfar.simulation.accuracies import constant_accuracies
from nearfar.simulation.dice import Durations
from nearfar.simulation.link.capacity import Rates
from nearfar.simulation.link.trace import Direction, LinkTrace
from nearfar.simulation.outcome import Outcome
from nearfar.simulation.run import settings_for, simulate
from nearfar.simulation.scenario import Scenario
from nearfar.simulation.steps import Steps

MS = 1000
S = 1_000_000
POLICIES = tuple(policies.POLICIES)
LADDER = (
    Rung(codec="jpeg", quality=50, scale=1.0, accuracy=0.98),
    Rung(codec="jpeg", quality=20, scale=1.0, accuracy=0.94),
    Rung(codec="jpeg", quality=20, scale=0.5, accuracy=0.88),
)


def link(
    *,
    mbit: float = 20.0,
    rtt_ms: float = 30.0,
    name: str = "wire",
    outage: tuple[int, int] | None = None,
    loss: float = 0.0,
    jitter_us: int = 0,
    rtt_steps: tuple[tuple[int, float], ...] = (),
) -> LinkTrace:
    """A symmetric link; `outage` (from, until) in µs swallows everything; `rtt_steps`: (µs, round trip ms)."""
    steps = ((0, rtt_ms), *rtt_steps)
    delay = Steps([at for at, _ in steps], [ms * MS / 2 for _, ms in steps])
    dead = Steps.constant(0) if outage is None else Steps([0, *outage], [0, 1, 0])
    way = Direction(
        capacity=Rates.constant(mbit),
        delay_us=delay,
        outage=dead,
        loss=Steps.constant(loss),
        jitter_us=Steps.constant(jitter_us),
    )
    return LinkTrace(name=name, up=way, down=way)


def scenario(trace: LinkTrace, **changes: object) -> Scenario:
    values: dict[str, object] = {
        "links": (trace,),
        "accuracies": constant_accuracies(LADDER, near=0.6, pixels=400 * 300),
        "near": Durations.spread(30 * MS),
        "worker": Durations.spread(15 * MS),
        "deadline_us": 100 * MS,
        "frames": 300,
    }
    return Scenario(**(values | changes))  # type: ignore[arg-type]


def run(world: Scenario, policy: str = "deadline", **changes: Any) -> Outcome:
    streams = {name: StreamSettings(pixels=400 * 300) for name in world.streams}
    settings: SchedulerSettings = settings_for(world, policy=policy, **changes)
    return simulate(world, settings, streams)
