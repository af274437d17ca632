"""The bytes of one link under way, as running sums: a look at them costs the same however many frames are out.

A lane is one ordered stream: once something sent at a time was answered, all that was sent before it has
crossed. Invariant, for any sequence of calls: the sums are those of the flights added and not dropped. Sans-IO.
"""

from collections.abc import Sequence

from edge.scheduling.far.forecast import Unanswered
from edge.scheduling.job import Flight


class InFlight:
    """`size_bytes` of all flights, `waiting_bytes` of those not sent yet, `ahead_bytes` of those sent and not
    proved to have crossed. `crossed_us`: what was sent until then is no longer on the link."""

    def __init__(self) -> None:
        self.size_bytes = 0
        self.waiting_bytes = 0
        self.waiting = 0
        self.ahead_bytes = 0
        self.crossed_us = 0
        self._ahead: dict[Flight, Unanswered] = {}  # in the order they were sent
        self._out: tuple[int, Sequence[Unanswered]] | None = None  # of a connection, until something changes

    def add(self, flight: Flight) -> None:
        """Decided on, not sent yet."""
        self.size_bytes += flight.size_bytes
        self.waiting_bytes += flight.size_bytes
        self.waiting += 1

    def sent(self, flight: Flight, *, size_bytes: int, now_us: int) -> None:
        """It leaves now on its connection, `size_bytes` long; what it was expected to take is known."""
        self.waiting -= 1
        self.waiting_bytes -= flight.size_bytes
        self.size_bytes += size_bytes - flight.size_bytes
        flight.size_bytes = size_bytes
        flight.sent_us = now_us
        if now_us > self.crossed_us:
            self._ahead[flight] = Unanswered(now_us, size_bytes, flight.nominal)
            self._out = None
            self.ahead_bytes += size_bytes

    def drop(self, flight: Flight) -> None:
        """It is no longer waited for."""
        self.size_bytes -= flight.size_bytes
        if flight.sent_us is None:
            self.waiting_bytes -= flight.size_bytes
            self.waiting -= 1
        else:
            self._no_longer_ahead(flight)

    def crossed(self, sent_us: int) -> None:
        """Something sent at `sent_us` was answered."""
        if sent_us <= self.crossed_us:
            return
        self.crossed_us = sent_us
        for flight in [f for f, out in self._ahead.items() if out.sent_us <= sent_us]:
            self._no_longer_ahead(flight)

    def sent_bytes(self, until_us: int) -> int:
        """Those sent by `until_us` that nothing answered proves to have crossed."""
        return sum([out.size_bytes for out in self._ahead.values() if out.sent_us <= until_us])

    def unanswered(self, connection: int) -> Sequence[Unanswered]:
        """Those on `connection` that may not have crossed yet, oldest first."""
        if self._out is None or self._out[0] != connection:
            self._out = connection, [out for f, out in self._ahead.items() if f.connection == connection]
        return self._out[1]

    def _no_longer_ahead(self, flight: Flight) -> None:
        out = self._ahead.pop(flight, None)
        if out is not None:
            self.ahead_bytes -= out.size_bytes
            self._out = None
