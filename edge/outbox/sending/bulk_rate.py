"""How fast the bulk lane may send beside live frames: up while nothing queues, down as soon as something does.

    each round that used its rate and met no queue:   rate × 1.25 before the first queue ever; then × 1.01 around the rate
                                                      that met the last one, × 1.1 below and beyond
    a queue (live frames' or the chunks' own):        rate = 0.8 · min(rate, what was acknowledged), at most once in two
                                                      rounds and never below half of the best of the last 10 s

A machine that stumbles looks like a queue for a moment: it costs a fall and no collapse.
Idea: LEDBAT (RFC 6817), a lane that yields by delay alone; the approach to the last rate as in CUBIC (RFC 9438).
Sans-IO; times are µs of the monotonic clock.
"""

from pipelines.windows import MinWindow

ROUND_AT_LEAST_US = 100_000
ROUND_AT_MOST_US = 1_000_000
USED = 0.6
"""A round that sent less of what it might have says nothing about a higher rate."""
FIRST_RISE = 1.25
RISE = 1.1
NEAR_RISE = 1.01
NEAR = (0.88, 1.02)
CUT = 0.8
AHEAD = 2.0
"""A rate is never more than this many times what was acknowledged."""
LEAST_BYTES_PER_S = 8_192.0
BEST_SPAN_US = 10_000_000
OF_BEST = 0.5
LEAST_ACKS = 4
STANDING_US = 80_000
"""Chunks that all take so much longer than they did stand in a queue of their own."""

FAR_BEYOND_US = 1 << 62


class BulkRate:
    """`bytes_per_s` begins with `begin`, and again with the next; `tried` once a round has moved it."""

    def __init__(self, bytes_per_s: float) -> None:
        self.begin(bytes_per_s, 0)

    def begin(self, bytes_per_s: float, now_us: int) -> None:
        self.bytes_per_s = bytes_per_s
        self.tried = False
        self._met: tuple[float, int] | None = None  # the rate that met a queue, and when
        self._best = MinWindow(BEST_SPAN_US)  # of what was acknowledged in a round, with its sign turned
        self._least_us = FAR_BEYOND_US  # later than the quickest, of the round's chunks the least
        self._restart(now_us)

    def sent(self, size_bytes: int) -> None:
        self._sent_bytes += size_bytes

    def acked(self, size_bytes: int, *, beyond_us: int, round_us: int, now_us: int) -> None:
        """A chunk is there, `beyond_us` later than the quickest of late; `round_us` is what the quickest took."""
        self._acked_bytes += size_bytes
        self._acks += 1
        self._least_us = min(self._least_us, beyond_us)
        took_us = now_us - self._began_us
        if took_us < min(max(round_us, ROUND_AT_LEAST_US), ROUND_AT_MOST_US) or self._acks < LEAST_ACKS:
            return
        acked = self._acked_bytes / took_us * 1e6
        self._best.add(-acked, now_us)
        used = self._sent_bytes >= USED * self.bytes_per_s * took_us / 1e6
        if self._least_us > STANDING_US:
            self._fall(min(self.bytes_per_s, acked) if used else self.bytes_per_s, now_us)
        elif used:
            self._rise(acked)
        self._restart(now_us)

    def queued(self, now_us: int, *, round_us: int) -> None:
        """Live frames queue, or come late. What is seen within two rounds of a fall may be older than it."""
        if self._met is None or now_us - self._met[1] >= 2 * max(round_us, ROUND_AT_LEAST_US):
            self._fall(self.bytes_per_s, now_us)
            self._restart(now_us)

    # -- inside -------------------------------------------------------------------------------------------

    def _restart(self, now_us: int) -> None:
        self._began_us = now_us
        self._sent_bytes = 0
        self._acked_bytes = 0
        self._acks = 0
        self._least_us = FAR_BEYOND_US

    def _rise(self, acked: float) -> None:
        self.tried = True
        if self._met is None:
            factor = FIRST_RISE
        else:
            below, beyond = NEAR
            near = below * self._met[0] <= self.bytes_per_s <= beyond * self._met[0]
            factor = NEAR_RISE if near else RISE
        self.bytes_per_s = min(self.bytes_per_s * factor, max(self.bytes_per_s, AHEAD * acked))

    def _fall(self, reached: float, now_us: int) -> None:
        self.tried = True
        best = -(self._best.value(now_us) or 0.0)
        self._met = (reached, now_us)
        self.bytes_per_s = max(LEAST_BYTES_PER_S, OF_BEST * best, CUT * reached)
