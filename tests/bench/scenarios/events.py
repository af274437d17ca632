"""Makes the acts of a scenario happen, each at its moment, and keeps when each was done."""

import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.scenarios.catalogue import Act
from tests.bench.scenarios.recipe import PORT
from tests.bench.scenarios.wall_clock import WallClock
from tests.support.netlab_house import House, Inside

JUMP_S = 5.0
HOGS_FOR_A_THIRD = 2
"""Programs beside a worker with real inference on one core: each gets a third."""


@dataclass
class Stage:
    """What acts have in their hands. `start_worker` starts another one and waits until it is ready."""

    house: House
    worker: Inside
    start_worker: Callable[[], Inside]
    real_worker: bool
    link: str
    overload_per_s: float
    wall: WallClock | None = None
    others: Inside | None = None
    hogs: list[Inside] = field(default_factory=list)

    def do(self, act: Act) -> None:
        house = self.house
        match act:
            case Act.RESET | Act.NO_RESET:
                house.reset_everything(begin=act is Act.RESET)
            case Act.LOSE_LARGE | Act.LOSE_NONE:
                house.lose_large_packets(begin=act is Act.LOSE_LARGE)
            case Act.SLOW if self.real_worker:
                self.hogs = [house.burn("cloud") for _ in range(HOGS_FOR_A_THIRD)]
            case Act.QUICK if self.real_worker:
                self._end_hogs()
            case Act.SLOW:
                self.worker.signal(signal.SIGUSR1)
            case Act.QUICK:
                self.worker.signal(signal.SIGUSR2)
            case Act.KILL:
                self.worker.kill()
            case Act.RESTART:
                self.worker = self.start_worker()
            case Act.FREEZE:
                self.worker.signal(signal.SIGSTOP)
            case Act.THAW:
                self.worker.signal(signal.SIGCONT)
            case Act.LOAD:
                arguments = [
                    "--url",
                    f"{self.link}://127.0.0.1:{PORT}",
                    "--per-s",
                    f"{self.overload_per_s:g}",
                ]
                self.others = house.start(
                    "cloud", ["-m", "tests.bench.scenarios.other_agents", *arguments], log="others.log"
                )
            case Act.NO_LOAD:
                assert self.others is not None
                self.others.stop()
            case Act.HOG:
                self.hogs = [house.burn("edge")]
            case Act.NO_HOG:
                self._end_hogs()
            case Act.LATER | Act.EARLIER:
                assert self.wall is not None
                self.wall.set_to(JUMP_S if act is Act.LATER else 0.0)
            case Act.FORGET:
                house.forget_flows()
            case Act.MOVE:
                house.move_worker()

    def _end_hogs(self) -> None:
        for hog in self.hogs:
            hog.kill()
        self.hogs = []


def play(
    acts: Sequence[tuple[float, Act]], stage: Stage, *, begun_s: float, over: Callable[[], bool]
) -> list[tuple[float, Act]]:
    """Each act at its moment after `begun_s` (monotonic); when each was done, after `begun_s`. Returns when `over`."""
    done: list[tuple[float, Act]] = []
    waiting = list(acts)
    while not over():
        if waiting and time.monotonic() - begun_s >= waiting[0][0]:
            _, act = waiting.pop(0)
            stage.do(act)
            done.append((time.monotonic() - begun_s, act))
        time.sleep(0.01)
    return done


def wall_clock_for(acts: Sequence[tuple[float, Act]], folder: Path) -> WallClock | None:
    """One, if the scenario has a use for it."""
    return WallClock(folder) if any(act is Act.LATER for _, act in acts) else None
