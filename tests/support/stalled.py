"""A gateway whose machine stands still now and then: nothing of it goes on meanwhile, and everything is late after.

Stalls depend on the seed alone, so every policy meets the same ones. The link stands still too, which is hard on far
and on nobody else.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from random import Random

from edge.scheduling.actions import Action, Give
from edge.scheduling.key import Key
from edge.scheduling.scheduler import Scheduler
from edge.scheduling.settings import SchedulerSettings, StreamSettings
from nearfar.simulation.clock import Clock
from nearfar.simulation.far_side import FarSide
from nearfar.simulation.gateway import Gateway
from nearfar.simulation.outcome import Outcome
from nearfar.simulation.run import AFTERMATH_US
from nearfar.simulation.scenario import Scenario, World
from pipelines.result import Status


class Stalls:
    """`seed` alone says when: one every `every_us` on average, each within `lasts_us`, short ones more often."""

    def __init__(self, *, seed: int, until_us: int, every_us: int, lasts_us: tuple[int, int]) -> None:
        dice = Random(seed)
        self._starts: list[int] = []
        self._ends: list[int] = []
        at_us = 0
        while at_us < until_us:
            at_us += int(dice.expovariate(1 / every_us)) + 1
            least_us, most_us = lasts_us
            self._starts.append(at_us)
            at_us += int(least_us * (most_us / least_us) ** dice.random())
            self._ends.append(at_us)

    def awake_us(self, at_us: int) -> int:
        """The moment itself, or the end of the stall it is in."""
        i = bisect_right(self._starts, at_us) - 1
        return max(at_us, self._ends[i]) if i >= 0 else at_us

    def done_us(self, start_us: int, work_us: int) -> int:
        """When work that takes `work_us` on a machine that is awake is done, begun at `start_us`."""
        now_us, left_us = self.awake_us(start_us), work_us
        for i in range(bisect_right(self._starts, now_us), len(self._starts)):
            if now_us + left_us <= self._starts[i]:
                break
            left_us -= self._starts[i] - now_us
            now_us = self._ends[i]
        return now_us + left_us


class StalledGateway(Gateway):
    """What the dispatcher reports of its lateness is reported here too."""

    def __init__(
        self,
        clock: Clock,
        world: World,
        scheduler: Scheduler,
        far: Mapping[str, FarSide],
        outcome: Outcome,
        *,
        stalls: Stalls,
    ) -> None:
        super().__init__(clock, world, scheduler, far, outcome)
        self._stalls = stalls
        self._given_us: dict[Key, int] = {}

    def run_until(self, end_us: int) -> None:
        clock, scheduler = self._clock, self._scheduler
        while True:
            slept_us = clock.now_us
            due_us = self._due_us()
            event_us = clock.next_us()
            next_us = min((t for t in (due_us, event_us) if t is not None), default=end_us + 1)
            if next_us > end_us:
                clock.advance(max(clock.now_us, end_us))
                return
            clock.advance(self._stalls.awake_us(max(clock.now_us, next_us)))
            clock.run_due()
            if due_us is not None and due_us <= clock.now_us:
                scheduler.wake_up.woke_late(clock.now_us - max(due_us, slept_us))
                self.do(scheduler.tick(clock.now_us))
            if self._waiting:
                for stream in scheduler.by_claim(list(self._waiting), clock.now_us):
                    self._take(stream)

    def _act(self, action: Action) -> None:
        if isinstance(action, Give):
            self._given_us[action.key] = self._clock.now_us
        super()._act(action)

    def _start_near(self, key: Key, *, small: bool) -> None:
        now_us = self._clock.now_us
        alone_us = self._world.small_near_us(key) if small else self._world.near_us(key)
        over_us = self._stalls.done_us(now_us, alone_us)
        self._near = started = (key, now_us, False)
        self._clock.at(over_us, lambda: self._near_over(started, over_us - now_us, Status.OK))

    def _committed(self, key: Key) -> None:
        self._scheduler.wake_up.commit_took(self._clock.now_us - self._given_us[key])
        self.do(self._scheduler.committed(key, self._clock.now_us))


def simulate_stalled(
    scenario: Scenario,
    settings: SchedulerSettings,
    streams: Mapping[str, StreamSettings],
    *,
    every_us: int,
    lasts_us: tuple[int, int],
) -> Outcome:
    """As `nearfar.simulation.run.simulate`, on a machine that stalls."""
    clock, world, outcome = Clock(), World(scenario), Outcome(policy=settings.policy)
    scheduler = Scheduler(settings, streams)

    def do(decided: Sequence[Action]) -> None:
        gateway.do(decided)

    far = {
        link.name: FarSide(
            link.name, trace, clock=clock, world=world, scheduler=scheduler, outcome=outcome, do=do
        )
        for link, trace in zip(settings.links, scenario.links, strict=True)
    }
    end_us = scenario.end_us + AFTERMATH_US
    stalls = Stalls(seed=scenario.seed, until_us=end_us, every_us=every_us, lasts_us=lasts_us)
    gateway = StalledGateway(clock, world, scheduler, far, outcome, stalls=stalls)
    for side in far.values():
        side.link.start()
    gateway.start()
    gateway.run_until(end_us)
    return outcome
