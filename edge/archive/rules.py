"""Which answers go up with their picture, and how much they matter: the first rule that matches counts.

Sans-IO. A rule looks at what the answer showed and who gave it, and may take only every Nth of those. Owned by the
dispatcher thread.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from edge.scheduling.priority_rule import PriorityRule
from pipelines.result import AnsweredBy, Detections, Priority, Record

_NOTHING = Detections.empty()


@dataclass(frozen=True, slots=True, kw_only=True)
class UplinkRule:
    """`seen`: what the answer must have shown, None = anything or nothing. `answered_by` None: anybody. `every` 1: each;
    `priority` None: the frame's own."""

    seen: PriorityRule | None = None
    answered_by: frozenset[AnsweredBy] | None = None
    every: int = 1
    payload: bool = False
    priority: Priority | None = None

    @property
    def looks(self) -> bool:
        """Whether it looks at the answer at all: then a match is an event."""
        return self.seen is not None or self.answered_by is not None

    def matches(self, record: Record, size_px: tuple[int, int]) -> bool:
        if self.answered_by is not None and record.answered_by not in self.answered_by:
            return False
        return self.seen is None or self.seen.matches(record.detections or _NOTHING, size_px)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What becomes of a frame: `payload`: its picture goes up; `event`: what was seen made it so."""

    payload: bool = False
    event: bool = False
    priority: Priority | None = None


class UplinkRules:
    """Without a rule that matches, the result goes up alone."""

    def __init__(self, rules: Sequence[UplinkRule]) -> None:
        self._rules = tuple(rules)
        self._met: dict[tuple[int, str], int] = {}

    @property
    def change_anything(self) -> bool:
        """Whether a rule sends a picture, or gives another priority."""
        return any(rule.payload or rule.priority is not None for rule in self._rules)

    def judge(self, record: Record, size_px: tuple[int, int]) -> Verdict:
        """`size_px`: (width, height) of the picture, which regions are shares of. Ask once per frame: the first of each
        N is taken, by stream."""
        for number, rule in enumerate(self._rules):
            if not rule.matches(record, size_px):
                continue
            key = (number, record.id.stream)
            met = self._met.get(key, 0)
            self._met[key] = met + 1
            if met % rule.every == 0:
                return Verdict(
                    payload=rule.payload, event=rule.payload and rule.looks, priority=rule.priority
                )
        return Verdict()
