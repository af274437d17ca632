"""A link from its first connection on: connections share the bottlenecks, the newest welcomed one is used.

As the links of the agent do it: an attempt is given up after 2 s, at most 4 are tried at once, an older
connection is kept for 30 s, and what still arrives on it counts.
"""

from collections.abc import Callable

from nearfar.simulation.clock import Clock
from nearfar.simulation.dice import Dice, Purpose
from nearfar.simulation.link.bottleneck import Bottleneck
from nearfar.simulation.link.packet_loss import LEAST_RTO_US
from nearfar.simulation.link.tcp_lane import TcpLane
from nearfar.simulation.link.trace import LinkTrace

HANDSHAKE_TRIPS = 3
"""TCP, ZeroMQ's greeting and handshake, Hello and Welcome."""
HANDSHAKE_BYTES = 150
SYN_RTO_US = 1_000_000
ATTEMPT_WITHIN_US = 2_000_000
MOST_TRIED = 4
SUPERSEDED_FOR_US = 30_000_000


class Connection:
    """`number` counts from 1."""

    def __init__(self, number: int, up: TcpLane, down: TcpLane) -> None:
        self.number = number
        self.up = up
        self.down = down
        self.welcomed = False
        self.closed = False

    def close(self) -> None:
        self.closed = True
        self.up.close()
        self.down.close()


class LinkModel:
    """`welcomed(connection)` is called when its Welcome is there; `current` is None before the first."""

    def __init__(
        self, clock: Clock, trace: LinkTrace, dice: Dice, *, welcomed: Callable[[Connection], None]
    ) -> None:
        self.trace = trace
        self.current: Connection | None = None
        self.up = Bottleneck(trace.up, dice, Purpose.JITTER_UP)
        self.down = Bottleneck(trace.down, dice, Purpose.JITTER_DOWN)
        self._clock = clock
        self._dice = dice
        self._welcomed = welcomed
        self._opened = 0
        self._tried = 0

    def start(self) -> None:
        """Connect, and try again for ever until the first Welcome."""
        if self.current is None:
            self.open_fresh()
            self._clock.at(self._clock.now_us + ATTEMPT_WITHIN_US, self.start)

    def open_fresh(self) -> None:
        if self._tried >= MOST_TRIED:
            return
        self._tried += 1
        self._opened += 1
        rtt_us = self.trace.rtt_us
        connection = Connection(
            self._opened,
            TcpLane(self._clock, self.up, self._dice, rtt_us=rtt_us),
            TcpLane(self._clock, self.down, self._dice, rtt_us=rtt_us),
        )
        self._clock.at(self._clock.now_us + ATTEMPT_WITHIN_US, lambda: self._give_up(connection))
        self._shake(connection, 0)

    def _shake(self, connection: Connection, trip: int) -> None:
        """One of the round trips before Welcome."""
        if connection.closed:
            return
        if trip == HANDSHAKE_TRIPS:
            self._take(connection)
            return
        number = (connection.number * HANDSHAKE_TRIPS + trip) * 2

        def back() -> None:
            connection.down.send(
                HANDSHAKE_BYTES,
                lambda: self._shake(connection, trip + 1),
                purpose=Purpose.HELLO_LOST,
                number=number + 1,
            )

        connection.up.send(
            HANDSHAKE_BYTES,
            back,
            purpose=Purpose.HELLO_LOST,
            number=number,
            least_rto_us=LEAST_RTO_US if trip else SYN_RTO_US,
        )

    def _take(self, connection: Connection) -> None:
        self._tried -= 1
        connection.welcomed = True
        older, self.current = self.current, connection
        if older is not None:
            self._clock.at(self._clock.now_us + SUPERSEDED_FOR_US, older.close)
        self._welcomed(connection)

    def _give_up(self, connection: Connection) -> None:
        if not connection.welcomed and not connection.closed:
            self._tried -= 1
            connection.close()
