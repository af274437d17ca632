"""What each agent may have in flight: frames and bytes, as absolute windows. Frames follow the load of the worker.

Sans-IO. A Hello on the live lane starts the agent's count afresh (`reset`): what was in flight on an older
connection is lost to the agent, so giving it back later changes nothing. No count ever falls below zero. An agent hears
of a smaller window later than it is made, so what it was told lately still holds: no frame sent under an older, larger
window is refused for it. Bytes are not shared: a frame larger than a share could never be sent.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from cloud.scheduling.window_pool import WindowPool

HONOURED_US = 10_000_000
"""How long what was told still holds once a smaller window was told; the slowest link that is of any use is quicker."""
LONG_QUEUE_US = 50_000


class Loan(NamedTuple):
    """Part of an agent's window held by one frame until its reply."""

    agent: str
    generation: int
    size_bytes: int


@dataclass(slots=True)
class _Account:
    """`window` is the last one told, 0 = none. `larger`: those before it that were larger, falling, each with the
    moment until which it held, in µs."""

    generation: int
    connected: bool = False
    frames: int = 0
    size_bytes: int = 0
    window: int = 0
    larger: deque[tuple[int, int]] = field(default_factory=deque)

    def tell(self, window: int, now_us: int) -> None:
        if window < self.window:
            while self.larger and self.larger[-1][1] <= self.window:
                self.larger.pop()
            self.larger.append((now_us, self.window))
        self.window = window

    def most(self, now_us: int) -> int:
        """The largest window a frame that arrives now may have been sent under."""
        while self.larger and self.larger[0][0] < now_us - HONOURED_US:
            self.larger.popleft()
        return max(self.window, self.larger[0][1]) if self.larger else self.window


class Credits:
    """`frames`: of one agent while the worker idles. `models`: each has its own queue, and windows that follow it."""

    def __init__(
        self,
        *,
        frames: int,
        size_bytes: int,
        models: Iterable[str] = (),
        long_queue_us: int = LONG_QUEUE_US,
    ) -> None:
        self.frames = frames
        self.size_bytes = size_bytes
        self._pools = {model: WindowPool(most=frames, long_us=long_queue_us) for model in models}
        self._accounts: dict[str, _Account] = {}
        self._generation = 0
        self._agents = 0  # connected ones

    def __len__(self) -> int:
        """Agents that are connected or hold a loan."""
        return len(self._accounts)

    def reset(self, agent: str) -> None:
        """It said Hello."""
        fresh = self._new()
        account = self._accounts.setdefault(agent, fresh)
        account.generation = fresh.generation
        account.frames = account.size_bytes = 0
        if not account.connected:
            account.connected = True
            self._agents += 1

    def close(self, agent: str) -> None:
        """Its last live connection is gone: what it had is for the others."""
        account = self._accounts.get(agent)
        if account is not None and account.connected:
            account.connected = False
            self._agents -= 1
            self._drop_if_unused(agent, account)

    def tell(self, agent: str, model: str, *, queue_us: int, service_us: int, now_us: int) -> int:
        """The window of the agent from now on, in frames; 0 for one that is not connected, which is told nothing.

        `queue_us`: what a new frame would wait for `model`; `service_us`: the median of its runs. The caller has to
        pass it on to the agent.
        """
        pool = self._pools[model]
        pool.observe(queue_us=queue_us, service_us=service_us, agents=self._agents, now_us=now_us)
        account = self._accounts.get(agent)
        if account is None or not account.connected:
            return 0
        window = pool.window(self._agents)
        account.tell(window, now_us)
        return window

    def window(self) -> int:
        """Frames an agent would be told, of the model with the longest queue."""
        return min((pool.window(self._agents) for pool in self._pools.values()), default=self.frames)

    def take(self, agent: str, size_bytes: int, now_us: int) -> Loan | None:
        """A loan of one frame of `size_bytes`, or None when the agent's window has no room for it."""
        account = self._accounts.get(agent)
        if account is None:
            account = self._accounts[agent] = self._new()
        most = account.most(now_us) or self.frames
        if account.frames + 1 > most or account.size_bytes + size_bytes > self.size_bytes:
            self._drop_if_unused(agent, account)
            return None
        account.frames += 1
        account.size_bytes += size_bytes
        return Loan(agent, account.generation, size_bytes)

    def give_back(self, loan: Loan) -> None:
        """The frame was answered, rejected or dropped. Call once per loan."""
        account = self._accounts.get(loan.agent)
        if account is not None and account.generation == loan.generation:
            account.frames -= 1
            account.size_bytes -= loan.size_bytes
            self._drop_if_unused(loan.agent, account)

    def in_flight(self, agent: str) -> tuple[int, int]:
        """`(frames, bytes)` of the agent's window in use."""
        account = self._accounts.get(agent)
        return (0, 0) if account is None else (account.frames, account.size_bytes)

    def _new(self) -> _Account:
        """Of a generation no loan knows, so that an older one given back later changes nothing."""
        self._generation += 1
        return _Account(self._generation)

    def _drop_if_unused(self, agent: str, account: _Account) -> None:
        if not account.connected and account.frames == 0:
            del self._accounts[agent]
