"""What became of the frames of a virtual world: each ends once, and an answer is released once."""

from dataclasses import dataclass, field

from edge.scheduling import actions
from edge.scheduling.key import Key
from pipelines.result import AnsweredBy


@dataclass(kw_only=True)
class Ledger:
    """`released`: when (µs), and who answered; `tracks`: when (µs) an answer was ordered to be carried forward."""

    given: dict[Key, actions.Give] = field(default_factory=dict)
    released: dict[Key, tuple[int, AnsweredBy]] = field(default_factory=dict)
    deadlines: dict[Key, int] = field(default_factory=dict)
    late_far: list[Key] = field(default_factory=list)
    shed: list[Key] = field(default_factory=list)
    shed_for: dict[Key, str] = field(default_factory=dict)
    tracks: list[tuple[int, Key]] = field(default_factory=list)

    def give(self, action: actions.Give) -> None:
        key = action.key
        assert key not in self.given, f"{key} was answered twice"
        assert key not in self.shed_for, f"{key} was shed and answered"
        self.given[key] = action

    def release(self, key: Key, now_us: int) -> None:
        assert key not in self.released, f"{key} was released twice"
        self.released[key] = (now_us, self.given[key].by)

    def give_up(self, key: Key, reason: str) -> None:
        assert key not in self.given, f"{key} was answered and shed"
        assert key not in self.shed_for, f"{key} was shed twice"
        self.shed.append(key)
        self.shed_for[key] = reason

    def carry(self, key: Key, now_us: int) -> None:
        assert key not in self.given, f"{key} was carried forward after its answer"
        self.tracks.append((now_us, key))

    def far_was_late(self, key: Key) -> None:
        if key not in self.given or self.given[key].by is not AnsweredBy.FAR:
            self.late_far.append(key)

    def share(
        self, by: AnsweredBy, first_seq: int = 1, last_seq: int = 1 << 60, stream: str | None = None
    ) -> float:
        seqs = [k for k in self.released if first_seq <= k[1] <= last_seq and stream in (None, k[0])]
        return sum(self.released[k][1] is by for k in seqs) / max(1, len(seqs))

    def late(self) -> list[Key]:
        return [k for k, (at, _) in self.released.items() if at > self.deadlines[k]]
