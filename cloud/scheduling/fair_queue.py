"""Frames waiting for a model: every agent its share first, and of an agent the earliest deadline first.

Start-time fair queueing (Goyal, Vin, Cheng, "Start-time Fair Queueing", SIGCOMM 1996), weights equal: each agent with a
backlog has a tag, the service it has had in virtual µs; the least tag is next, of equal ones the most urgent. An agent
that comes back starts at the present: having been idle it has gathered no credit. So of two agents that both have a
backlog neither gets more than two runs ahead of the other. A frame is charged what it is expected to cost
when it leaves, and what it did cost once that is known; what expires or is removed costs its agent nothing. Sans-IO.
"""

import heapq
from collections.abc import Iterator
from typing import Generic, TypeVar

from cloud.scheduling.queue import EdfQueue, Ticket

T = TypeVar("T")

_SLACK = 16


class _Flow(EdfQueue[T]):
    """One agent's frames. `tag_us`: where it stands in virtual time, in the accounts of `era`; `place`: its one valid
    entry in the heap."""

    __slots__ = ("era", "place", "tag_us")

    def __init__(self) -> None:
        super().__init__()
        self.tag_us = 0
        self.era = 0
        self.place = 0


class FairQueue(Generic[T]):
    """`length` (also `len`) and `size_bytes` count what waits, of all agents."""

    def __init__(self) -> None:
        self._flows: dict[str, _Flow[T]] = {}
        self._heap: list[tuple[int, int, int, _Flow[T]]] = []
        self._places = 0
        self._busy = 0
        self._present_us = 0
        self._era = 0
        self.length = 0
        self.size_bytes = 0

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[T]:
        """Items that wait, in no particular order."""
        return (item for flow in self._flows.values() for item in flow)

    @property
    def agents(self) -> int:
        """Agents that something is remembered of: at most 16 while nothing waits."""
        return len(self._flows)

    def push(self, item: T, *, agent: str, expiry_us: int, size_bytes: int) -> Ticket[T]:
        flow = self._flows.get(agent)
        if flow is None:
            flow = self._flows[agent] = _Flow()
        new = not flow.rows
        ticket = flow.push(item, expiry_us=expiry_us, size_bytes=size_bytes, agent=agent)
        self.length += 1
        self.size_bytes += size_bytes
        if new:
            self._busy += 1
            if flow.era != self._era or flow.tag_us < self._present_us:
                flow.era, flow.tag_us = self._era, self._present_us
            self._enter(flow)
        return ticket

    def pop(self, now_us: int, *, cost_us: int, takes_us: int = 0) -> tuple[list[T], T | None]:
        """`(expired, next)`: of the agents that were asked, items with `expiry_us <= now_us`, and the one to be run
        now, whose agent is charged `cost_us`.

        While others wait, one that would be late by then if it ran for `takes_us` counts as expired: it would take the
        time in which another can still be answered.
        """
        expired: list[T] = []
        while self._heap:
            _, _, place, flow = self._heap[0]
            if place != flow.place:
                heapq.heappop(self._heap)
                continue
            over_us = now_us + takes_us if self.length > 1 else now_us
            if flow.next_expiry_us <= over_us:
                expired.append(self._drop(flow))
                continue
            heapq.heappop(self._heap)
            ticket = flow.pop_ticket()
            self._present_us = max(self._present_us, flow.tag_us)
            ticket.charged_us, ticket.era = cost_us, self._era
            flow.tag_us += cost_us
            self._count_out(ticket.size_bytes)
            if flow.rows:
                self._enter(flow)
            else:
                self._ran_dry(flow)
            return expired, ticket.item
        return expired, None

    def settle(self, ticket: Ticket[T], cost_us: int) -> None:
        """What an item that was popped has cost in the end; told once."""
        if ticket.charged_us is None:
            return
        more_us, ticket.charged_us = cost_us - ticket.charged_us, None
        flow = self._flows.get(ticket.agent)
        if flow is not None and more_us and ticket.era == self._era:
            flow.tag_us += more_us
            if flow.rows:
                self._enter(flow)

    def remove(self, ticket: Ticket[T]) -> bool:
        """Take a waiting item out; False if it has left already."""
        flow = self._flows.get(ticket.agent)
        if flow is None or not flow.remove(ticket):
            return False
        self._count_out(ticket.size_bytes)
        if not flow.rows:
            self._ran_dry(flow)
        return True

    def expired(self, now_us: int) -> list[T]:
        """Take out what expired, of every agent, without taking the next."""
        late = [flow for flow in self._flows.values() if flow.rows and flow.next_expiry_us <= now_us]
        return [item for flow in late for item in self._sweep(flow, now_us)]

    def ahead_of(self, agent: str, expiry_us: int | None, *, cost_us: int) -> int:
        """How many waiting items would run before a new one of `agent` with this deadline (None: the agent's last), if
        each costs `cost_us` and none came after it."""
        mine = self._flows.get(agent)
        own, tag_us = 0, self._present_us
        if mine is not None:
            own = len(mine.rows) if expiry_us is None else mine.ahead_of(expiry_us)
            if len(mine.rows) == self.length:
                return own
            if mine.era == self._era and mine.tag_us > tag_us:
                tag_us = mine.tag_us
        elif not self.length:
            return 0
        cost_us = max(1, cost_us)
        tag_us += own * cost_us
        ahead = own
        for flow in self._flows.values():
            waiting = len(flow.rows)
            if not waiting or flow is mine or flow.tag_us > tag_us:
                continue
            before, apart_us = divmod(tag_us - flow.tag_us, cost_us)
            if before >= waiting:
                ahead += waiting
                continue
            if apart_us or expiry_us is None or flow.next_expiry_us <= expiry_us:
                before += 1  # its next tag is below ours, or equal and it is the more urgent
            ahead += before
        return ahead

    def displaced_by(self, agent: str) -> T | None:
        """What has to give its place to a frame of `agent` when there is none left: the least urgent item of the
        agent with most waiting, if that has at least two more than `agent`. It stays in the queue until it is
        removed."""
        mine = self._flows.get(agent)
        longest = max(self._flows.values(), key=lambda flow: len(flow.rows), default=None)
        if longest is None or len(longest.rows) < (0 if mine is None else len(mine.rows)) + 2:
            return None
        return longest.rows[0][2].item

    def soonest_us(self) -> int | None:
        """The earliest deadline of all that waits; None when nothing does."""
        return min((flow.next_expiry_us for flow in self._flows.values() if flow.rows), default=None)

    def _enter(self, flow: _Flow[T]) -> None:
        """Give it its place in the order; an earlier one is void."""
        self._places += 1
        flow.place = self._places
        heapq.heappush(self._heap, (flow.tag_us, flow.next_expiry_us, flow.place, flow))
        if len(self._heap) > 2 * self._busy + _SLACK:
            self._heap = [entry for entry in self._heap if entry[2] == entry[3].place]
            heapq.heapify(self._heap)

    def _drop(self, flow: _Flow[T]) -> T:
        """Its most urgent item."""
        ticket = flow.pop_ticket()
        self._count_out(ticket.size_bytes)
        if not flow.rows:
            self._ran_dry(flow)
        return ticket.item

    def _sweep(self, flow: _Flow[T], now_us: int) -> list[T]:
        before_bytes = flow.size_bytes
        out = flow.expired(now_us)
        self.length -= len(out)
        self.size_bytes -= before_bytes - flow.size_bytes
        if not flow.rows:
            self._ran_dry(flow)
        return out

    def _count_out(self, size_bytes: int) -> None:
        self.length -= 1
        self.size_bytes -= size_bytes

    def _ran_dry(self, flow: _Flow[T]) -> None:
        """It has nothing more to run. What it owes is remembered only while others wait."""
        flow.place = 0
        self._busy -= 1
        if not self.length:
            self._heap.clear()
            self._present_us = 0
            self._era += 1
            if len(self._flows) > _SLACK:
                self._flows.clear()
        elif len(self._flows) > 2 * self._busy + _SLACK:
            self._flows = {
                name: flow
                for name, flow in self._flows.items()
                if flow.rows or flow.tag_us > self._present_us
            }
