"""When backfill may go, and how much of it: below live traffic, never starved.

Sans-IO; times are µs of the monotonic clock. Backfill depends on reachability, not on the round-trip band.
In budget a chunk goes while nothing of the live lane is in flight or its queueing is at most 10 ms more than without
chunks, at a rate that rises while nothing queues (`edge.outbox.sending.bulk_rate`), out of the way of the next frame
(`edge.outbox.sending.live_rhythm`). Over budget, where no live frame is sent, it takes at most 80 % of the goodput
(`edge.outbox.sending.goodput`). What is on its way is bounded by rate × round trip. Whatever the link does, a small chunk goes
every 5 s while the worker can be reached. Payloads are paused besides while they cost far answers.
"""

from collections import deque

from edge.outbox.sending.bulk_rate import BulkRate
from edge.outbox.sending.goodput import Goodput
from edge.outbox.sending.live_rhythm import LiveRhythm
from edge.outbox.sending.pause import PauseRule

SHARE = 0.8
LOOKS = 4  # at the live lane, in which it queues each time: one frame behind one chunk is no queue
QUEUEING_US = 10_000
USUAL_AT_MOST_US = 30_000  # what round trips vary by without any chunk (on a radio link) is no queue of ours
USUAL_WEIGHT = 0.2
SILENT_US = 150_000
AT_LEAST_EVERY_US = 5_000_000
SMALL_BYTES = 4096
LARGE_BYTES = 64 * 1024
GAP_US = 10_000  # a chunk's transmission in budget: no live frame waits longer for one than it may queue
STRETCH_US = 250_000  # and over budget, where there is nothing to fit between
CATCH_UP_US = 20_000  # whoever sends is woken late: what was not sent then may follow at once
WINDOW_US = 40_000  # beyond the round trip: what is on its way may stand in a queue so long
UNKNOWN_BYTES_PER_S = 125_000.0
UNPACED_BYTES_PER_S = 1e9  # whoever says that the link is so fast has no live frames, and wants no pace
LOOK_AGAIN_US = 20_000  # what the live lane does now wakes nobody
STALE_US = 2_000_000  # an observation of the live lane says nothing after this


class Pacing:
    """One link's bulk lane."""

    def __init__(self) -> None:
        self._connected = False
        self._in_flight_bytes = 0
        self._over_budget = False
        self._live_bytes_per_s = 0.0
        self._queueing_us: deque[int] = deque(maxlen=LOOKS)
        self._least_queueing_us = 0
        self._usual_us = 0.0  # of that, without chunks on their way
        self._rtt_us = 0
        self._observed_us: int | None = None
        self._free_us = 0  # when what was sent will have crossed at our share
        self._last_us: int | None = None
        self._goodput = Goodput()
        self._rate = BulkRate(SHARE * UNKNOWN_BYTES_PER_S)
        self._rhythm = LiveRhythm()
        self.pause = PauseRule()

    @property
    def connected(self) -> bool:
        return self._connected

    def reachable(self, *, connected: bool, now_us: int) -> None:
        """A connection came or went; what was on its way is not waited for."""
        self._goodput = Goodput()  # it may be another link
        self._rate.begin(SHARE * (self._live_bytes_per_s or UNKNOWN_BYTES_PER_S), now_us)
        if connected and not self._connected:
            self._free_us = now_us
            self._last_us = now_us
        self._connected = connected

    def observe(
        self,
        *,
        in_flight_bytes: int,
        over_budget: bool,
        bytes_per_s: float,
        queueing_us: int,
        now_us: int,
        rtt_us: int = 0,
    ) -> None:
        """What the live lane saw last; `bytes_per_s` 0 while the bandwidth is unknown; `rtt_us`: the least round
        trip."""
        if not self._live(now_us):
            self._queueing_us.clear()
        self._queueing_us.append(queueing_us)
        self._least_queueing_us = min(self._queueing_us)
        if self._over_budget and not over_budget and self._goodput.bytes_per_s:
            self._rate.begin(SHARE * self._goodput.bytes_per_s, now_us)
        self._learn_usual(now_us)
        self._in_flight_bytes = in_flight_bytes
        self._over_budget = over_budget
        self._live_bytes_per_s = bytes_per_s
        self._rtt_us = rtt_us
        self._observed_us = now_us
        if bytes_per_s > 0 and not (self._rate.tried or self._goodput.bytes_per_s):
            self._rate.bytes_per_s = SHARE * bytes_per_s
        if self._goodput.out_bytes and not over_budget and self._queues:
            self._rate.queued(now_us, round_us=self._goodput.base_us(now_us))

    def observe_far(self, *, offloaded: int, far: int, now_us: int) -> None:
        """Frames sent far since the start, and far answers given: fewer of them while payloads go is a queue, too."""
        before_us = self.pause.until_us
        self.pause.observe(offloaded=offloaded, far=far, now_us=now_us)
        if self.pause.until_us != before_us:
            self._rate.queued(now_us, round_us=self._goodput.base_us(now_us))

    def allowance_bytes(self, now_us: int) -> int:
        """How large a chunk may go now; 0 for none."""
        if not self._connected:
            return 0
        if now_us >= self._free_us and self._idle(now_us) and self._window_open(now_us):
            size_bytes = self._chunk_bytes(now_us)
            if self._clear_us(size_bytes, now_us) <= now_us:
                return size_bytes
        return SMALL_BYTES if self._starved(now_us) else 0

    def live_sent(self, now_us: int) -> None:
        """A live frame left on this link."""
        self._rhythm.sent(now_us)

    def payload_allowance_bytes(self, now_us: int) -> int:
        """How large a piece of a payload may go now; 0 for none."""
        allowance_bytes = self.allowance_bytes(now_us)
        if now_us < self.pause.until_us and not self._starved(now_us):
            return 0
        return min(allowance_bytes, SMALL_BYTES) if now_us < self.pause.until_us else allowance_bytes

    def payload_due_us(self, now_us: int) -> int:
        """As `due_us`, for a piece of a payload."""
        starved_us = (now_us if self._last_us is None else self._last_us) + AT_LEAST_EVERY_US
        return min(max(self.due_us(now_us), self.pause.until_us), max(starved_us, now_us))

    def sent(self, size_bytes: int, now_us: int, *, batch: int | None = None) -> None:
        """A chunk was handed to the link; the next waits until it has crossed at our rate. One without a `batch` number
        is not acknowledged."""
        took_us = int(size_bytes / self._bytes_per_s(now_us) * 1e6)
        self._last_us = now_us
        self._free_us = max(now_us - CATCH_UP_US, self._free_us) + took_us
        self._rate.sent(size_bytes)
        if batch is not None:
            self._goodput.sent(batch, size_bytes, now_us)

    def acked(self, batch: int, now_us: int) -> None:
        """The worker has it; how long that took tells of the link."""
        before_bytes = self._goodput.out_bytes
        beyond_us = self._goodput.acked(batch, now_us, rtt_us=self._rtt_us)
        if beyond_us is not None:
            self._rate.acked(
                before_bytes - self._goodput.out_bytes,
                beyond_us=beyond_us,
                round_us=self._goodput.base_us(now_us),
                now_us=now_us,
            )

    def lost(self, batch: int) -> None:
        """It is not waited for any more."""
        self._goodput.forget(batch)

    def lost_all(self) -> None:
        """As `lost`, of all that is on its way."""
        self._goodput.forget_all()

    def due_us(self, now_us: int) -> int:
        """The earliest moment at which asking again may help, if nothing new is observed."""
        starved_us = (now_us if self._last_us is None else self._last_us) + AT_LEAST_EVERY_US
        if now_us < self._free_us:
            return min(self._free_us, starved_us)
        if self._idle(now_us):
            return (
                self._clear_us(self._chunk_bytes(now_us), now_us) if self._window_open(now_us) else starved_us
            )
        return min(starved_us, now_us + LOOK_AGAIN_US)

    # -- inside -------------------------------------------------------------------------------------------

    @property
    def _queues(self) -> bool:
        return self._least_queueing_us > QUEUEING_US + self._usual_us

    def _learn_usual(self, now_us: int) -> None:
        silent = self._last_us is None or now_us - self._last_us >= SILENT_US
        if self._least_queueing_us < self._usual_us or (silent and not self._goodput.out_bytes):
            seen_us = min(self._least_queueing_us, USUAL_AT_MOST_US)
            self._usual_us += USUAL_WEIGHT * (seen_us - self._usual_us)

    def _bytes_per_s(self, now_us: int) -> float:
        """What the bulk lane may send."""
        if self._beside_live(now_us):
            return self._rate.bytes_per_s
        if self._live_bytes_per_s >= UNPACED_BYTES_PER_S:
            return self._live_bytes_per_s
        return SHARE * (self._goodput.bytes_per_s or self._live_bytes_per_s or UNKNOWN_BYTES_PER_S)

    def _chunk_bytes(self, now_us: int) -> int:
        span_us = GAP_US if self._beside_live(now_us) else STRETCH_US
        return min(LARGE_BYTES, max(SMALL_BYTES, int(self._bytes_per_s(now_us) * span_us / 1e6)))

    def _clear_us(self, size_bytes: int, now_us: int) -> int:
        """From when such a chunk is in no live frame's way."""
        goodput = self._goodput.bytes_per_s
        if not goodput or not self._beside_live(now_us):
            return now_us
        return self._rhythm.clear_us(int(size_bytes / max(goodput, self._rate.bytes_per_s) * 1e6), now_us)

    def _window_open(self, now_us: int) -> bool:
        out_bytes = self._goodput.out_bytes
        if out_bytes < 2 * SMALL_BYTES or self._live_bytes_per_s >= UNPACED_BYTES_PER_S:
            return True
        bytes_per_s = min(self._bytes_per_s(now_us), self._goodput.bytes_per_s or UNKNOWN_BYTES_PER_S)
        return out_bytes < bytes_per_s * (self._goodput.base_us(now_us) + WINDOW_US) / 1e6

    def _live(self, now_us: int) -> bool:
        return self._observed_us is not None and now_us - self._observed_us < STALE_US

    def _beside_live(self, now_us: int) -> bool:
        return self._live(now_us) and not self._over_budget

    def _starved(self, now_us: int) -> bool:
        return self._last_us is not None and now_us - self._last_us >= AT_LEAST_EVERY_US

    def _idle(self, now_us: int) -> bool:
        if not self._live(now_us):
            return True
        return self._over_budget or self._in_flight_bytes == 0 or not self._queues
