"""The shared part of one direction of a link: a drop-tail queue, then delay. Who comes first is served first."""

from nearfar.simulation.dice import Dice, Purpose
from nearfar.simulation.link.capacity import PACKET_BYTES
from nearfar.simulation.link.trace import Direction

JITTER_EVERY_US = 10_000


class Bottleneck:
    """Call `serve` in the order of time."""

    def __init__(self, direction: Direction, dice: Dice, jitter: Purpose) -> None:
        self.direction = direction
        self._dice = dice
        self._jitter = jitter
        self._served = 0.0
        self._carried = 0.0

    @property
    def carried_bytes(self) -> int:
        """All that was served, retransmissions included."""
        return int(self._carried)

    def room(self, at_us: int) -> float:
        """Bytes that still fit into the queue; at least one packet where nothing waits."""
        offered = self.direction.capacity.offered(at_us)
        waiting = max(0.0, self._served - offered)
        limit = self.direction.queue_bytes.at(at_us)
        if not limit:
            until_us = at_us + int(self.direction.queue_us.at(at_us))
            limit = self.direction.capacity.offered(until_us) - offered
        return max(limit - waiting, 0.0 if waiting else PACKET_BYTES)

    def serve(self, size_bytes: float, at_us: int) -> int:
        """When the last packet leaves."""
        capacity = self.direction.capacity
        self._served = max(self._served, capacity.offered(at_us)) + size_bytes
        self._carried += size_bytes
        return max(at_us, capacity.reached_us(self._served))

    def swallows(self, at_us: int) -> bool:
        """Whether what crosses at `at_us` is lost in an outage."""
        return self.direction.outage.at(at_us) > 0

    def flight_us(self, at_us: int) -> int:
        """Delay and jitter after the queue, a function of time alone."""
        delay_us = self.direction.delay_us.at(at_us)
        jitter_us = self.direction.jitter_us.at(at_us)
        if jitter_us:
            delay_us += jitter_us * self._dice.normal(self._jitter, at_us // JITTER_EVERY_US)
        return max(0, int(delay_us))
