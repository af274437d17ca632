"""The bytes of one link under way, as running sums: a look at them costs the same however many frames are out.

A lane is one ordered stream: once something sent at a time was answered, all that was sent before it has
crossed. Invariant, for any sequence of calls: the sums are those of the flights added and not dropped. Sans-IO.
"""

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
        self._ahead: dict[Flight, int] = {}  # in the order they were sent -> bytes

    def add(self, flight: Flight) -> None:
        """Decided on, not sent yet."""
        self.size_bytes += flight.size_bytes
        self.waiting_bytes += flight.size_bytes
        self.waiting += 1

    def sent(self, flight: Flight, *, size_bytes: int, now_us: int) -> None:
        """It leaves now, `size_bytes` long."""
        self.waiting -= 1
        self.waiting_bytes -= flight.size_bytes
        self.size_bytes += size_bytes - flight.size_bytes
        flight.size_bytes = size_bytes
        flight.sent_us = now_us
        if now_us > self.crossed_us:
            self._ahead[flight] = size_bytes
            self.ahead_bytes += size_bytes

    def drop(self, flight: Flight) -> None:
        """It is no longer waited for."""
        self.size_bytes -= flight.size_bytes
        if flight.sent_us is None:
            self.waiting_bytes -= flight.size_bytes
            self.waiting -= 1
        else:
            self.ahead_bytes -= self._ahead.pop(flight, 0)

    def crossed(self, sent_us: int) -> None:
        """Something sent at `sent_us` was answered."""
        if sent_us <= self.crossed_us:
            return
        self.crossed_us = sent_us
        for flight in [f for f in self._ahead if f.sent_us is not None and f.sent_us <= sent_us]:
            self.ahead_bytes -= self._ahead.pop(flight)

    def sent_bytes(self, until_us: int) -> int:
        """Those sent by `until_us` that nothing answered proves to have crossed."""
        return sum(
            [size for f, size in self._ahead.items() if f.sent_us is not None and f.sent_us <= until_us]
        )

    def stalls(self, now_us: int, *, times: float) -> bool:
        """Whether one of them is out for more than `times` what it should be, and not overdue yet."""
        for flight in self._ahead:
            sent_us = flight.sent_us
            if sent_us is not None and not flight.overdue and now_us - sent_us > times * flight.expected_us:
                return True
        return False
