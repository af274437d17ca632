"""What the bulk lane's own chunks say of the link: how fast they cross, and whether they stand in a queue.

    crossing  = acknowledged − max(sent + round trip, the acknowledgement before it): the link carries one after the other
    goodput   = Σ size / Σ crossing of the last SPAN_US
    delivered = Σ size acknowledged lately / the time that was: what went, however fast it could
    standing  = least of lately (acknowledged − sent) beyond the least of the last 10 s

An acknowledgement waits for the worker's disk, so goodput is rather too low than too high; the least of several is
free of the disk's grouping. Sans-IO; times are µs of the monotonic clock.
"""

from collections import deque

from pipelines.windows import MinWindow

SPAN_US = 2_000_000
BASE_SPAN_US = 10_000_000
LEAST_CROSSING_US = 500
"""Together, what is acknowledged at once took at least so long: no link is told to be infinitely fast."""


class Goodput:
    """Of one connection. `out_bytes` are on their way; `took_us` is how long the last one was."""

    def __init__(self) -> None:
        self._out: dict[int, tuple[int, int]] = {}  # batch → (sent, size)
        self._crossed: deque[tuple[int, int, int]] = deque()  # (acknowledged, size, crossing)
        self._size_bytes = 0
        self._crossing_us = 0
        self._acked_us = 0
        self._base = MinWindow(BASE_SPAN_US)
        self.out_bytes = 0

    def sent(self, batch: int, size_bytes: int, now_us: int) -> None:
        self._out[batch] = (now_us, size_bytes)
        self.out_bytes += size_bytes

    def acked(self, batch: int, now_us: int, *, rtt_us: int) -> int | None:
        """How long it was on its way beyond the least of late; None for one that is not waited for. `rtt_us`: the round
        trip of a small message."""
        out = self._out.pop(batch, None)
        if out is None:
            return None
        sent_us, size_bytes = out
        self.out_bytes -= size_bytes
        took_us = now_us - sent_us
        self._base.add(took_us, now_us)
        crossing_us = max(0, now_us - max(self._acked_us, sent_us + min(rtt_us, took_us)))
        self._acked_us = now_us
        self._crossed.append((now_us, size_bytes, crossing_us))
        self._size_bytes += size_bytes
        self._crossing_us += crossing_us
        while self._crossed[0][0] < now_us - SPAN_US:
            _, size, crossing = self._crossed.popleft()
            self._size_bytes -= size
            self._crossing_us -= crossing
        return took_us - self.base_us(now_us)

    def forget(self, batch: int) -> None:
        """It is no longer waited for."""
        self.out_bytes -= self._out.pop(batch, (0, 0))[1]

    def forget_all(self) -> None:
        self._out.clear()
        self.out_bytes = 0

    @property
    def bytes_per_s(self) -> float:
        """While chunks cross; 0 before the first."""
        return self._size_bytes / max(LEAST_CROSSING_US, self._crossing_us) * 1e6

    def base_us(self, now_us: int) -> int:
        """The least a chunk took of late, from its sending to its acknowledgement; 0 before the first."""
        return int(self._base.value(now_us) or 0)
