"""Whether live frames may be offloaded: the round-trip band, pings, probes and dead connections.

Over budget when 2 of the last 3 round trips are above the band, when an overdue frame and a missed ping
coincide, or after 3 missed pings. Back after `needed` consecutive probes (real frames) below the band;
flapping doubles `needed`, quiet time resets it. Sans-IO.
"""

from collections import deque

PING_EVERY_US = 200_000
PROBE_EVERY_US = 200_000
FRESH_EVERY_US = 500_000
PROBE_LOST_US = 1_000_000  # whatever became of it, another may go
PROBES_TO_RETURN = 2
MOST_PROBES_TO_RETURN = 16
FLAP_SPAN_US = 5_000_000
PINGS_TO_DIE = 3


class Breaker:
    """`fall_back_above_us` and `return_below_us` bound the band. Starts over budget, until the first round
    trip below the band."""

    def __init__(self, *, fall_back_above_us: int, return_below_us: int) -> None:
        self._above_us = fall_back_above_us
        self._below_us = return_below_us
        self.connected = False
        self.in_budget = False
        self.reason = "not connected"
        self._untried = True
        self._last_three: deque[bool] = deque(maxlen=3)
        self._pings: dict[int, int] = {}  # nonce -> sent_us, unanswered
        self._missed: set[int] = set()  # nonces already counted as above the band
        self._next_nonce = 1
        self._next_ping_us = 0
        self._heard_us = 0
        self._fresh_us = 0
        self._probe: object | None = None
        self._next_probe_us = 0
        self._good_probes = 0
        self._needed = PROBES_TO_RETURN
        self._returned_us = 0
        self._last_rtt: tuple[int, int] | None = None  # (rtt_us, at_us)

    def __repr__(self) -> str:
        state = "in budget" if self.in_budget else f"over budget: {self.reason}"
        return f"<Breaker {state}, {len(self._pings)} pings out, {self._good_probes}/{self._needed} probes>"

    # -- what happens -------------------------------------------------------------------------------------

    def welcomed(self, now_us: int) -> None:
        """A connection was welcomed; earlier pings will not be answered on it."""
        self.connected = True
        self._forget_pings()
        self._heard_us = now_us
        self._next_ping_us = now_us
        if not self.in_budget and self.reason == "not connected":
            self.reason = "not measured yet"

    def lost(self, now_us: int, reason: str) -> None:
        """No connection is left."""
        self.connected = False
        self._forget_pings()
        self._probe = None
        self._trip(now_us, reason)

    def heard(self, now_us: int) -> None:
        """Anything arrived on the link."""
        self._heard_us = now_us

    def pong(self, nonce: int, now_us: int) -> bool:
        """Whether `nonce` was out; it and all older ones are settled."""
        if nonce not in self._pings:
            return False
        for old in [n for n in self._pings if n <= nonce]:
            del self._pings[old]
            self._missed.discard(old)
        self.heard(now_us)
        return True

    def round_trip(self, rtt_us: int, now_us: int, *, live: bool) -> None:
        """A measured round trip, of a ping or of a live frame (which then replaces the next ping)."""
        self.heard(now_us)
        self._last_rtt = (rtt_us, now_us)
        if live:
            self._next_ping_us = max(self._next_ping_us, now_us + PING_EVERY_US)
        if self._untried and rtt_us <= self._above_us:
            self._untried = False
            self._enter(now_us)
            return
        self._judge(above=rtt_us > self._above_us, now_us=now_us, words=f"round trip {rtt_us / 1000:.0f} ms")

    def frame_overdue(self, now_us: int) -> None:
        """A live frame is unanswered past its time: with a missed ping, the link is over budget."""
        if self._missed:
            self._trip(now_us, "frames and pings unanswered")
        elif not self._pings:
            self._next_ping_us = min(self._next_ping_us, now_us)

    def frames_vanish(self, now_us: int) -> None:
        """Pings pass while frames do not come back: large packets are lost on the way."""
        self._trip(now_us, "pings pass but frames vanish")

    # -- pings --------------------------------------------------------------------------------------------

    def ping_due(self, now_us: int) -> int | None:
        """The nonce to send now, or None."""
        if not self.connected or now_us < self._next_ping_us:
            return None
        nonce = self._next_nonce
        self._next_nonce += 1
        self._pings[nonce] = now_us
        self._next_ping_us = now_us + PING_EVERY_US
        return nonce

    def ping_sent_us(self, nonce: int) -> int | None:
        return self._pings.get(nonce)

    def check(self, now_us: int) -> bool:
        """Count pings that are late by now; True if a fresh connection should be opened."""
        for nonce, sent_us in self._pings.items():
            if nonce not in self._missed and now_us - sent_us >= self._above_us:
                self._missed.add(nonce)
                self._judge(above=True, now_us=now_us, words="pings unanswered")
        if not self.silent(now_us):
            return False
        self._trip(now_us, "link silent")
        if now_us < self._fresh_us:
            return False
        self._fresh_us = now_us + FRESH_EVERY_US
        return True

    def silent(self, now_us: int) -> bool:
        """Three pings are out unanswered and nothing at all was heard meanwhile."""
        if not self.connected or len(self._missed) < PINGS_TO_DIE:
            return False
        return now_us - self._heard_us >= PINGS_TO_DIE * PING_EVERY_US

    def pings_pass(self, *, since_us: int) -> bool:
        """Whether a round trip inside the band was measured after `since_us`."""
        if self._last_rtt is None:
            return False
        rtt_us, at_us = self._last_rtt
        return rtt_us <= self._above_us and at_us > since_us

    def next_us(self) -> int | None:
        """When `ping_due` or `check` has to be asked again."""
        if not self.connected:
            return None
        times = [self._next_ping_us]
        times += [sent + self._above_us for nonce, sent in self._pings.items() if nonce not in self._missed]
        if len(self._missed) >= PINGS_TO_DIE:
            times.append(max(self._fresh_us, self._heard_us + PINGS_TO_DIE * PING_EVERY_US))
        return min(times)

    # -- probes -------------------------------------------------------------------------------------------

    def probe_due(self, now_us: int) -> bool:
        """Whether the next frame should go as a probe. Not while pings alone say it cannot come back in time."""
        if self.in_budget or not self.connected or now_us < self._next_probe_us:
            return False
        if self._probe is not None and now_us < self._next_probe_us - PROBE_EVERY_US + PROBE_LOST_US:
            return False
        if self._last_rtt is None:
            return False
        rtt_us, at_us = self._last_rtt
        return rtt_us <= self._above_us and now_us - at_us <= 2 * PING_EVERY_US + self._above_us

    def probe_sent(self, probe: object, now_us: int) -> None:
        self._probe = probe
        self._next_probe_us = now_us + PROBE_EVERY_US

    def probe_ended(self, probe: object, *, rtt_us: int | None, now_us: int) -> bool:
        """A probe came back (`rtt_us`) or did not (None). True if the link is back in budget."""
        if probe != self._probe:
            return False
        self._probe = None
        if self.in_budget:
            return False
        if rtt_us is None or rtt_us > self._below_us:
            self._good_probes = 0
            return False
        self._good_probes += 1
        if self._good_probes < self._needed:
            return False
        self._enter(now_us)
        return True

    # -- inside -------------------------------------------------------------------------------------------

    def _forget_pings(self) -> None:
        self._pings.clear()
        self._missed.clear()

    def _judge(self, *, above: bool, now_us: int, words: str) -> None:
        self._last_three.append(above)
        if above and sum(self._last_three) >= 2:
            self._trip(now_us, words)
        if self.in_budget and now_us - self._returned_us > FLAP_SPAN_US:
            self._needed = PROBES_TO_RETURN

    def _enter(self, now_us: int) -> None:
        self.in_budget = True
        self.reason = ""
        self._good_probes = 0
        self._last_three.clear()
        self._returned_us = now_us

    def _trip(self, now_us: int, reason: str) -> None:
        if self.in_budget:
            flapping = self._returned_us and now_us - self._returned_us < FLAP_SPAN_US
            self._needed = min(self._needed * 2, MOST_PROBES_TO_RETURN) if flapping else PROBES_TO_RETURN
            self._next_probe_us = now_us + PROBE_EVERY_US
        if self.in_budget or reason == "link silent" or not self.connected:
            self.reason = reason
        self.in_budget = False
        self._good_probes = 0
