"""Who is connected, by name: connections of one run, newest last, and newcomers that claim a name in use.

A second agent of the same name and another run is a cloned card or a restarted agent. The roster cannot know,
so the old connections are asked with a Ping: one Pong refuses the newcomer, none within `ANSWER_US` means that
they are gone and the newcomer takes the name. Not thread-safe: the service calls it under its lock.
"""

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from protos.wire.session import Hello, Lane

S = TypeVar("S")

ANSWER_US = 500_000


@dataclass(slots=True)
class _Name(Generic[S]):
    run: bytes
    members: list[tuple[S, Lane]] = field(default_factory=list)
    newcomers: list[tuple[S, Hello]] = field(default_factory=list)
    nonce: int = 0
    asked_us: int = 0


@dataclass(frozen=True, slots=True)
class Ask(Generic[S]):
    """Send a Ping with `nonce` to each of `members`; one whose send fails is gone (`leave`)."""

    members: list[S]
    nonce: int


class Roster(Generic[S]):
    def __init__(self) -> None:
        self._names: dict[str, _Name[S]] = {}
        self._nonce = 0

    def claim(self, member: S, hello: Hello, now_us: int) -> Ask[S] | None:
        """None: welcome, the connection is entered. Otherwise the newcomer waits for the answer to `Ask`."""
        name = self._names.setdefault(hello.agent, _Name(hello.run))
        name.members = [(m, lane) for m, lane in name.members if m is not member]
        if not name.members:
            name.run = hello.run
        if name.run == hello.run:
            name.members.append((member, hello.lane))
            return None
        name.newcomers = [(m, h) for m, h in name.newcomers if m is not member]
        first = not name.newcomers
        name.newcomers.append((member, hello))
        if first:
            self._nonce += 1
            name.nonce, name.asked_us = self._nonce, now_us
        return Ask([m for m, _ in name.members] if first else [], name.nonce)

    def answered(self, agent: str, member: S, nonce: int) -> list[tuple[S, Hello]]:
        """A Pong came: the newcomers to refuse."""
        name = self._names.get(agent)
        if name is None or name.nonce != nonce or all(m is not member for m, _ in name.members):
            return []
        refused, name.newcomers = name.newcomers, []
        return refused

    def silent(self, now_us: int) -> tuple[list[S], list[tuple[S, Hello]]]:
        """Members that did not answer in time and lost their name, and the newcomers that may claim it now."""
        displaced: list[S] = []
        waiting: list[tuple[S, Hello]] = []
        for name in self._names.values():
            if name.newcomers and now_us - name.asked_us >= ANSWER_US:
                displaced += [m for m, _ in name.members]
                waiting += name.newcomers
                name.members, name.newcomers = [], []
        return displaced, waiting

    def leave(self, agent: str, member: S) -> list[tuple[S, Hello]]:
        """A connection is gone: the newcomers that may claim the name now."""
        name = self._names.get(agent)
        if name is None:
            return []
        name.members = [(m, lane) for m, lane in name.members if m is not member]
        name.newcomers = [(m, h) for m, h in name.newcomers if m is not member]
        if name.members:
            return []
        del self._names[agent]
        return name.newcomers

    def newest_live(self, agent: str, run: bytes | None = None, *, besides: object) -> S | None:
        """The newest live connection of this run, or of whichever has the name, other than `besides`."""
        name = self._names.get(agent)
        if name is None or run not in (None, name.run):
            return None
        live = [m for m, lane in name.members if lane is Lane.LIVE and m is not besides]
        return live[-1] if live else None

    def run_of(self, agent: str) -> bytes | None:
        """The run whose connections have this name; None when nobody has it."""
        name = self._names.get(agent)
        return name.run if name is not None and name.members else None

    def connections(self) -> int:
        return sum(len(name.members) for name in self._names.values())

    def agents(self) -> int:
        return sum(bool(name.members) for name in self._names.values())
