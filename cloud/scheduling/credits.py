"""What each agent may have in flight: frames and bytes, as absolute windows.

Sans-IO. A Hello on the live lane starts the agent's window afresh (`reset`): what was in flight on an older
connection is lost to the agent, so giving it back later changes nothing. Neither count ever falls below zero.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Loan:
    """Part of an agent's window held by one frame until its reply."""

    agent: str
    generation: int
    size_bytes: int


@dataclass(slots=True)
class _Account:
    generation: int = 0
    frames: int = 0
    size_bytes: int = 0


class Credits:
    """One fixed window for every agent."""

    def __init__(self, *, frames: int, size_bytes: int) -> None:
        self.frames = frames
        self.size_bytes = size_bytes
        self._accounts: dict[str, _Account] = {}

    def reset(self, agent: str) -> None:
        account = self._accounts.setdefault(agent, _Account())
        account.generation += 1
        account.frames = account.size_bytes = 0

    def take(self, agent: str, size_bytes: int) -> Loan | None:
        """A loan of one frame of `size_bytes`, or None when the agent's window has no room for it."""
        account = self._accounts.setdefault(agent, _Account())
        if account.frames + 1 > self.frames or account.size_bytes + size_bytes > self.size_bytes:
            return None
        account.frames += 1
        account.size_bytes += size_bytes
        return Loan(agent, account.generation, size_bytes)

    def give_back(self, loan: Loan) -> None:
        """The frame was answered, rejected or dropped. Call once per loan."""
        account = self._accounts[loan.agent]
        if account.generation == loan.generation:
            account.frames -= 1
            account.size_bytes -= loan.size_bytes

    def in_flight(self, agent: str) -> tuple[int, int]:
        """`(frames, bytes)` of the agent's window in use."""
        account = self._accounts.get(agent, _Account())
        return account.frames, account.size_bytes
