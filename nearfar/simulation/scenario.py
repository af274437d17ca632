"""All a run needs besides the policy: cameras, machines, the link and what each answer would be worth.

Everything chance decides is a function of the seed and the frame, so that policies and oracles run in the same
world (`Dice`).
"""

from dataclasses import dataclass, field

from edge.scheduling.key import Key
from nearfar.simulation.accuracies import Accuracies
from nearfar.simulation.dice import Dice, Durations, Purpose
from nearfar.simulation.link.trace import LinkTrace
from protos.wire.session import Credit

START_US = 1_000_000
"""When the first frame is there; the link is opened at 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """`frames` of each stream at `fps`; streams are evenly out of step. `commit_us`: decision to outbox.

    `cancel_us`: how long a cancelled near run goes on. `small_near` None = the gateway has no second input.
    """

    links: tuple[LinkTrace, ...]
    accuracies: Accuracies
    near: Durations
    worker: Durations
    deadline_us: int
    fps: float = 15.0
    frames: int = 1500
    streams: tuple[str, ...] = ("camera",)
    seed: int = 0
    small_near: Durations | None = None
    commit_us: int = 300
    cancel_us: int = 1_000
    credit: Credit = field(default_factory=lambda: Credit(frames=8, bytes=4 << 20))

    @property
    def interval_us(self) -> float:
        return 1e6 / self.fps

    @property
    def end_us(self) -> int:
        return int(START_US + (self.frames + 1) * self.interval_us + self.deadline_us)


class World:
    """The scenario as one seed makes it."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.dice = Dice(scenario.seed)
        self._index = {name: i for i, name in enumerate(scenario.streams)}
        self._offset = scenario.seed * 131

    def captured_us(self, key: Key) -> int:
        scenario = self.scenario
        phase = self._index[key[0]] / len(scenario.streams)
        return int(START_US + (key[1] - 1 + phase) * scenario.interval_us)

    def number(self, key: Key) -> int:
        """One number for each frame of the run."""
        return key[1] * len(self.scenario.streams) + self._index[key[0]]

    def picture(self, key: Key) -> int:
        """Which frame of the clip it shows: seeds start at different places, streams half a clip apart."""
        frames = self.scenario.accuracies.frames
        apart = self._index[key[0]] * frames // (2 * len(self.scenario.streams))
        return (key[1] + self._offset + apart) % frames

    def near_us(self, key: Key) -> int:
        return self.scenario.near.at(self.dice.uniform(Purpose.NEAR, self.number(key)))

    def small_near_us(self, key: Key) -> int:
        small = self.scenario.small_near or self.scenario.near
        return small.at(self.dice.uniform(Purpose.SMALL_NEAR, self.number(key)))

    def worker_us(self, key: Key) -> int:
        return self.scenario.worker.at(self.dice.uniform(Purpose.WORKER, self.number(key)))

    def encode_us(self, key: Key, rung: int) -> int:
        samples = self.scenario.accuracies.encode_us[rung]
        return samples[int(self.dice.uniform(Purpose.ENCODE, self.number(key)) * len(samples))]

    def size_bytes(self, key: Key, rung: int) -> int:
        return self.scenario.accuracies.size_bytes[rung][self.picture(key)]

    def confidence(self, key: Key) -> float:
        """How sure near is of what it saw; where that was not recorded, anything between 0 and 1."""
        known = self.scenario.accuracies.confidence
        if known is None:
            return self.dice.uniform(Purpose.CONFIDENCE, self.number(key))
        return known[self.picture(key)]
