"""One run: a scenario under the scheduler's settings, to its outcome."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from edge.scheduling.actions import Action
from edge.scheduling.scheduler import Scheduler
from edge.scheduling.settings import LinkSettings, SchedulerSettings, StreamSettings
from nearfar.simulation.clock import Clock
from nearfar.simulation.far_side import FarSide
from nearfar.simulation.gateway import Gateway
from nearfar.simulation.outcome import Outcome
from nearfar.simulation.scenario import Scenario, World

SLOWEST_WARM_UP = 0.9
"""An agent starts from the slowest of a few warm-up runs; as a quantile."""
AFTERMATH_US = 1_000_000
"""So long late results may still come after the last deadline."""


def simulate(
    scenario: Scenario, settings: SchedulerSettings, streams: Mapping[str, StreamSettings]
) -> Outcome:
    """The outcome of `settings.policy`. `settings.links` name the scenario's links in order.

    Raises ValueError when settings and scenario speak of different links, ladders or streams.
    """
    if len(settings.links) != len(scenario.links):
        raise ValueError(f"{len(settings.links)} links in the settings, {len(scenario.links)} traces")
    if len(settings.ladder) != len(scenario.accuracies.ladder):
        raise ValueError("the ladder of the settings is not the one the accuracies speak of")
    if set(streams) != set(scenario.streams):
        raise ValueError(f"streams {sorted(streams)}, the scenario has {sorted(scenario.streams)}")
    clock = Clock()
    world = World(scenario)
    outcome = Outcome(policy=settings.policy)
    scheduler = Scheduler(settings, streams)

    def do(decided: Sequence[Action]) -> None:
        gateway.do(decided)

    far = {
        link.name: FarSide(
            link.name, trace, clock=clock, world=world, scheduler=scheduler, outcome=outcome, do=do
        )
        for link, trace in zip(settings.links, scenario.links, strict=True)
    }
    gateway = Gateway(clock, world, scheduler, far, outcome)
    for side in far.values():
        side.link.start()
    gateway.start()
    gateway.run_until(scenario.end_us + AFTERMATH_US)
    outcome.carried_bytes = sum(side.link.up.carried_bytes for side in far.values())
    return outcome


def settings_for(
    scenario: Scenario, *, policy: str = "deadline", margin_us: int = 4_000, **changes: object
) -> SchedulerSettings:
    """Settings with every default of the product for this scenario: its ladder, accuracies and links."""
    accuracies = scenario.accuracies
    plain = SchedulerSettings(
        deadline_us=scenario.deadline_us,
        margin_us=margin_us,
        ladder=accuracies.ladder,
        near_accuracy=round(accuracies.near.f1, 4),
        near_prior_us=scenario.near.at(SLOWEST_WARM_UP),
        fall_back_above_us=scenario.deadline_us,
        return_below_us=scenario.deadline_us // 2,
        policy=policy,
        links=tuple(LinkSettings(name=trace.name) for trace in scenario.links),
    )
    return replace(plain, **changes)  # type: ignore[arg-type]
