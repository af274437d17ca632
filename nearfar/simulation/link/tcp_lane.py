"""One direction of one TCP connection: in order, and as patient as TCP.

    arrival = max(previous arrival, max(end of serialisation, start + rounds · RTT) + delay + repair)

rounds: how often the congestion window has to grow before the message fits: 10 segments at first (RFC 6928),
doubling; × 0.7 after a drop (RFC 9438), then one segment a round. What falls into an outage is tried again after
an RTO, doubling (RFC 6298), and all behind it waits: after a long blackhole only a fresh connection is quick.
Left out: loss of acknowledgements, reordering, pacing.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from nearfar.simulation.clock import Clock
from nearfar.simulation.dice import Dice, Purpose
from nearfar.simulation.link.bottleneck import Bottleneck
from nearfar.simulation.link.capacity import NEVER_US
from nearfar.simulation.link.packet_loss import LEAST_RTO_US, SEGMENT_BYTES, packets_lost, repair_us

FIRST_WINDOW_BYTES = 10.0 * SEGMENT_BYTES
MOST_WINDOW_BYTES = float(4 << 20)
AFTER_DROP = 0.7
MOST_RTO_US = 120_000_000


@dataclass(frozen=True, slots=True)
class _Message:
    size_bytes: int
    purpose: Purpose
    number: int
    arrived: Callable[[], None]
    followed: bool


class TcpLane:
    """`rtt_us(now)`: the round trip of the connection. `rto_us`: the first retransmission time-out."""

    def __init__(
        self, clock: Clock, bottleneck: Bottleneck, dice: Dice, *, rtt_us: Callable[[int], int]
    ) -> None:
        self._clock = clock
        self._bottleneck = bottleneck
        self._dice = dice
        self._rtt_us = rtt_us
        self._waiting: deque[_Message] = deque()
        self._stalled = False
        self._closed = False
        self._rto_us = LEAST_RTO_US
        self._arrived_us = 0
        self._window = FIRST_WINDOW_BYTES
        self._slow_start = True

    def send(
        self,
        size_bytes: int,
        arrived: Callable[[], None],
        *,
        purpose: Purpose,
        number: int,
        least_rto_us: int = LEAST_RTO_US,
        followed: bool = False,
    ) -> None:
        """`arrived` is called when the message is there whole; `purpose` and `number` decide its fate.

        `followed`: a longer message is sent right behind it.
        """
        if self._closed:
            return
        if not self._waiting and not self._stalled:
            self._rto_us = max(least_rto_us, LEAST_RTO_US + self._rtt_us(self._clock.now_us))
        self._waiting.append(_Message(size_bytes, purpose, number, arrived, followed))
        self._flush()

    def close(self) -> None:
        """What has not left is gone; what is on its way still arrives."""
        self._closed = True
        self._waiting.clear()

    def _flush(self) -> None:
        while self._waiting and not self._stalled:
            if self._bottleneck.swallows(self._clock.now_us):
                self._stall(self._clock.now_us)
                return
            self._transmit(self._waiting.popleft())

    def _stall(self, lost_us: int) -> None:
        self._stalled = True
        self._clock.at(lost_us + self._rto_us, self._retry)

    def _retry(self) -> None:
        """One retransmission; what waits behind it goes when it is acknowledged, from a small window."""
        if self._closed:
            return
        now_us = self._clock.now_us
        if self._bottleneck.swallows(now_us):
            self._rto_us = min(2 * self._rto_us, MOST_RTO_US)
            self._stall(now_us)
            return
        self._window = FIRST_WINDOW_BYTES
        self._slow_start = True
        self._stalled = False
        if self._waiting:
            self._transmit(self._waiting.popleft())
        if not self._stalled:
            self._stalled = True
            self._clock.at(now_us + self._rtt_us(now_us), self._resume)

    def _resume(self) -> None:
        self._stalled = False
        self._rto_us = LEAST_RTO_US + self._rtt_us(self._clock.now_us)
        self._flush()

    def _transmit(self, message: _Message) -> None:
        now_us = self._clock.now_us
        size_bytes = message.size_bytes
        direction = self._bottleneck.direction
        share = direction.loss.at(now_us)
        lost = packets_lost(
            size_bytes,
            self._dice,
            share=share,
            burst=direction.burst_packets,
            purpose=message.purpose,
            number=message.number,
        )
        dropped = max(0.0, min(float(size_bytes), self._window) - self._bottleneck.room(now_us))
        last_us = self._bottleneck.serve(size_bytes + lost * SEGMENT_BYTES, now_us)
        if last_us >= NEVER_US:
            self._stalled = True  # the link carries nothing any more
            return
        if self._bottleneck.swallows(last_us):
            self._waiting.appendleft(message)
            self._stall(last_us)
            return
        rtt_us = self._rtt_us(now_us)
        there_us = max(last_us, now_us + self._rounds(size_bytes) * rtt_us)
        if dropped or lost:
            self._window = max(FIRST_WINDOW_BYTES, self._window * AFTER_DROP)
            self._slow_start = False
            there_us += (
                repair_us(
                    size_bytes,
                    self._dice,
                    rtt_us=rtt_us,
                    share=share,
                    purpose=message.purpose,
                    number=message.number,
                    followed=message.followed,
                )
                if lost or size_bytes <= SEGMENT_BYTES
                else rtt_us
            )
        self._arrived_us = max(self._arrived_us, there_us + self._bottleneck.flight_us(last_us))
        self._clock.at(self._arrived_us, message.arrived)

    def _rounds(self, size_bytes: int) -> int:
        """Round trips spent waiting for acknowledgements; the window grows by use."""
        window = self._window
        sent = window
        rounds = 0
        while sent < size_bytes:
            window = self._grown(window)
            sent += window
            rounds += 1
        if 2 * size_bytes > self._window:
            self._window = self._grown(window)
        return rounds

    def _grown(self, window: float) -> float:
        return min(2 * window if self._slow_start else window + SEGMENT_BYTES, MOST_WINDOW_BYTES)
