"""How a link behaves over time, one value a direction; everything known beforehand, nothing decided by chance."""

from dataclasses import dataclass, field, replace

from nearfar.simulation.link.capacity import Capacity, Rates
from nearfar.simulation.steps import Steps

FAST_MBIT_PER_S = 10_000.0


def _constant(value: float) -> Steps:
    return Steps.constant(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Direction:
    """One way. `delay_us` after the bottleneck; `jitter_us`: standard deviation of a normal; `loss`: share of
    packets, in bursts of `burst_packets`; `outage`: above 0 = what crosses then is lost.

    The queue in front of the bottleneck is drop-tail: it holds `queue_bytes`, or where that is 0 what the link
    carries in `queue_us`.
    """

    capacity: Capacity = field(default_factory=lambda: Rates.constant(FAST_MBIT_PER_S))
    delay_us: Steps = field(default_factory=lambda: _constant(0))
    jitter_us: Steps = field(default_factory=lambda: _constant(0))
    loss: Steps = field(default_factory=lambda: _constant(0))
    burst_packets: float = 1.0
    outage: Steps = field(default_factory=lambda: _constant(0))
    queue_us: Steps = field(default_factory=lambda: _constant(200_000))
    queue_bytes: Steps = field(default_factory=lambda: _constant(0))


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkTrace:
    """`up`: gateway to worker. `described` says in a few words what it is; `note`, what its reader should
    know of how it was read."""

    name: str
    up: Direction
    down: Direction
    described: str = ""
    note: str = ""

    def rtt_us(self, at_us: int) -> int:
        """The round trip of a small packet on an empty link."""
        return int(self.up.delay_us.at(at_us) + self.down.delay_us.at(at_us))

    def with_loss(self, share: float, *, burst_packets: float = 1.0) -> "LinkTrace":
        """The same link losing `share` of the packets of each direction."""
        loss = Steps.constant(share)
        return replace(
            self,
            up=replace(self.up, loss=loss, burst_packets=burst_packets),
            down=replace(self.down, loss=loss, burst_packets=burst_packets),
        )

    def with_jitter(self, jitter_us: int) -> "LinkTrace":
        jitter = Steps.constant(jitter_us)
        return replace(self, up=replace(self.up, jitter_us=jitter), down=replace(self.down, jitter_us=jitter))
