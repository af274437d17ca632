"""One lane told as a story: what happens, what it does, in virtual time."""

import itertools
from collections.abc import Sequence

from edge.links.lane import Close, Decision, LaneMachine, Open, Tell
from protos.wire.messages import ToAgent
from protos.wire.session import Lane
from tests.support.endpoints import WELCOME


class Story:
    """One live lane and the time; `said` is every decision so far."""

    def __init__(self, *, several: bool = False) -> None:
        self.machine = LaneMachine(Lane.LIVE, itertools.count(1), several=lambda: several)
        self.now_us = 1_000_000
        self.said: list[Decision] = []

    def note(self, decisions: Sequence[Decision]) -> Sequence[Decision]:
        self.said += decisions
        return decisions

    def look(self, *, fresh: bool = False) -> Sequence[Decision]:
        return self.note(self.machine.look(self.now_us, fresh=fresh))

    def pass_us(self, us: int) -> Sequence[Decision]:
        self.now_us += us
        return self.look()

    def shaken(self, number: int) -> Sequence[Decision]:
        return self.note(self.machine.shaken(number, self.now_us))

    def heard(self, number: int, message: ToAgent) -> Sequence[Decision]:
        now_us = self.now_us
        return self.note(self.machine.heard(number, message, arrived_us=now_us - 7, now_us=now_us))

    def turned_down(self, number: int) -> Sequence[Decision]:
        return self.note(list(self.machine.turned_down(number, "not ours", self.now_us)))

    def lost(self, number: int) -> Sequence[Decision]:
        return self.note(self.machine.lost(number, "gone", self.now_us))

    def opened(self) -> list[int]:
        return [d.number for d in self.said if isinstance(d, Open)]

    def closed(self) -> list[int]:
        return [d.number for d in self.said if isinstance(d, Close)]

    def told(self) -> list[object]:
        return [d.event for d in self.said if isinstance(d, Tell)]

    def welcomed(self, number: int) -> None:
        self.shaken(number)
        self.heard(number, WELCOME)

    def fresh(self) -> int:
        """A fresh connection, greeting."""
        self.look(fresh=True)
        number = self.opened()[-1]
        self.shaken(number)
        return number
