"""Whether live frames may be offloaded to one link: the round-trip band, probes and dead connections.

Over budget when 2 of the last 3 round trips are above the band, when an overdue frame and a missed ping
coincide, or after 3 missed pings. Back after `needed` consecutive frames sent since (probes or not) below the band;
flapping doubles `needed`, it decays within 5 s. On metered links pings and probes back off. Sans-IO.
"""

from collections import deque

from edge.scheduling.far.pings import PING_EVERY_US, PINGS_TO_DIE, Pings

RETURN_PING_EVERY_US = 100_000
"""While over budget: a probe waits for a ping that came back quickly, so its age is part of how late far returns."""
PROBE_EVERY_US = 200_000
FRESH_EVERY_US = 500_000
VANISHED_FRESH_EVERY_US = 5_000_000
PROBE_LOST_US = 1_000_000  # whatever became of it, another may go
PROBES_TO_RETURN = 2
MOST_PROBES_TO_RETURN = 8
FLAP_SPAN_US = 5_000_000
METERED_PATIENCE_US = 10_000_000
METERED_EVERY_US = 5_000_000

VANISH = "pings pass but frames vanish"


class Breaker:
    """`fall_back_above_us` and `return_below_us` bound the band. Starts over budget, until the first round
    trip below the band. `metered`: after 10 s over budget it asks only every 5 s."""

    def __init__(self, *, fall_back_above_us: int, return_below_us: int, metered: bool = False) -> None:
        self._above_us = fall_back_above_us
        self._below_us = return_below_us
        self._metered = metered
        self.pings = Pings(missed_after_us=fall_back_above_us)
        self.connected = False
        self.in_budget = False
        self.reason = "not connected"
        self._untried = True
        self._last_three: deque[bool] = deque(maxlen=3)
        self._over_since_us = 0
        self._fresh_us = 0
        self._vanished = False
        self._probe: object | None = None
        self._next_probe_us = 0
        self._good_probes = 0
        self._needed = PROBES_TO_RETURN
        self._tripped_us = 0
        self._returned_us: int | None = None
        self._last_rtt: tuple[int, int] | None = None  # (rtt_us, at_us)
        self._spacing_us = 0
        self._next_us: int | None = None
        self._next_known = False  # whatever touches the pings or the state makes it unknown

    def __repr__(self) -> str:
        state = "in budget" if self.in_budget else f"over budget: {self.reason}"
        return f"<Breaker {state}, {len(self.pings)} pings out, {self._good_probes}/{self._needed} probes>"

    @property
    def alive(self) -> bool:
        """Whether the link carries anything at all, in the band or not: it was tried, no ping is late, and frames
        do not vanish on it. Who knows how long a frame would take may use it then, and need not keep to the band."""
        return self.connected and not self._untried and not self.pings.missed and self.reason != VANISH

    # -- what happens -------------------------------------------------------------------------------------

    def welcomed(self, now_us: int) -> None:
        """A connection was welcomed; earlier pings will not be answered on it."""
        self._next_known = False
        if not self.connected:
            self._over_since_us = now_us
        self.connected = True
        self.pings.restart(now_us)
        if not self.in_budget and self.reason == "not connected":
            self.reason = "not measured yet"

    def lost(self, now_us: int, reason: str) -> None:
        """No connection is left."""
        self._next_known = False
        self.connected = False
        self.pings.forget()
        self._probe = None
        self._trip(now_us, reason)

    def heard(self, now_us: int) -> None:
        """Anything arrived on the link."""
        self._next_known = False
        self.pings.heard(now_us)

    def round_trip(self, rtt_us: int, now_us: int, *, live: bool) -> None:
        """A measured round trip, of a ping or of a live frame (which then replaces the next ping)."""
        self.heard(now_us)
        self._last_rtt = (rtt_us, now_us)
        if live:
            self.pings.postpone(now_us, PING_EVERY_US)
        if self._untried and rtt_us <= self._above_us:
            self._untried = False
            self._enter(now_us)
            self._returned_us = None  # the first time is not a return: tripping soon is not flapping
            return
        above = rtt_us > self._above_us
        words = f"round trip {rtt_us / 1000:.0f} ms" if above else ""
        self._judge(above=above, now_us=now_us, words=words)

    def frame_overdue(self, now_us: int) -> None:
        """A live frame is unanswered past its time: with a missed ping, the link is over budget."""
        self._next_known = False
        self._good_probes = 0
        if self.pings.missed:
            self._trip(now_us, "frames and pings unanswered")
        else:
            self.pings.hurry(now_us)

    def frames_vanish(self, now_us: int) -> None:
        """Pings pass while frames do not come back: large packets are lost on the way. A fresh connection may
        find another way or a smaller packet size, so one is asked for."""
        self._next_known = False
        self._trip(now_us, VANISH)
        self.reason = VANISH
        self._vanished = True

    def silent(self, now_us: int) -> bool:
        """Whether the link is connected and answers nothing."""
        return self.connected and self.pings.silent(now_us)

    # -- pings --------------------------------------------------------------------------------------------

    def ping_due(self, now_us: int, *, excused_us: int = 0, spacing_us: int = 0) -> int | None:
        """The nonce to send now, or None. `excused_us`: own bytes ahead of it take so long; `spacing_us`: what the data
        budget leaves between two."""
        self._spacing_us = spacing_us
        if not self.connected:
            return None
        every_us = self._every_us(now_us)
        if not (self.in_budget or self._metered):
            every_us = RETURN_PING_EVERY_US
        nonce = self.pings.due(now_us, max(spacing_us, every_us), excused_us=excused_us)
        if nonce is not None:
            self._next_known = False
        return nonce

    def check(self, now_us: int) -> str | None:
        """Count pings that are late by now; why a fresh connection should be opened, None if it need not."""
        if not self.connected:
            return None
        for _ in range(self.pings.late(now_us)):
            self._next_known = False
            self._judge(above=True, now_us=now_us, words="pings unanswered")
        silent = self.pings.silent(now_us)
        if silent:
            self._trip(now_us, "link silent")
            self.reason = "link silent" if self.reason != VANISH else VANISH
        if not (silent or self._vanished) or now_us < self._fresh_us:
            return None
        every_us = (
            max(FRESH_EVERY_US, self._spacing_us, self._every_us(now_us))
            if silent
            else VANISHED_FRESH_EVERY_US
        )
        self._next_known = False
        self._fresh_us = now_us + every_us
        self._vanished = False
        return self.reason

    def quiet(self, now_us: int) -> bool:
        """Whether nothing can be due by now, as far as was found out already: the link is in budget, no ping is due and
        none is late."""
        if not self.in_budget or self.pings.missed or not self._next_known:
            return False
        return self._next_us is not None and now_us < self._next_us

    def next_us(self) -> int | None:
        """When `ping_due` or `check` has to be asked again."""
        if not self._next_known:
            self._next_us = self._find_next_us()
            self._next_known = True
        return self._next_us

    def _find_next_us(self) -> int | None:
        if not self.connected:
            return None
        next_us = self.pings.next_us()
        if self.pings.missed >= PINGS_TO_DIE:
            next_us = min(next_us, max(self._fresh_us, self.pings.silent_from_us()))
        return min(next_us, self._fresh_us) if self._vanished else next_us

    # -- probes -------------------------------------------------------------------------------------------

    def probe_due(self, now_us: int) -> bool:
        """Whether the next frame should go as a probe. Not while pings alone say it cannot come back in time."""
        if self.in_budget or not self.connected or now_us < self._next_probe_us:
            return False
        every_us = max(PROBE_EVERY_US, self._every_us(now_us))
        if self._probe is not None and now_us < self._next_probe_us - every_us + PROBE_LOST_US:
            return False
        if self._last_rtt is None:
            return False
        rtt_us, at_us = self._last_rtt
        fresh_us = 2 * max(every_us, self._spacing_us) + self._above_us
        return rtt_us <= self._above_us and now_us - at_us <= fresh_us

    def probe_sent(self, probe: object, now_us: int) -> None:
        self._probe = probe
        self._next_probe_us = now_us + max(PROBE_EVERY_US, self._every_us(now_us))

    def probe_ended(self, probe: object, *, rtt_us: int | None, now_us: int) -> bool:
        """A probe came back (`rtt_us`) or did not (None). True if the link is back in budget."""
        if probe != self._probe:
            return False
        self._probe = None
        return self._count(rtt_us=rtt_us, now_us=now_us)

    def frame_answered(self, *, rtt_us: int, sent_us: int, now_us: int) -> None:
        """Any frame sent while over budget speaks for the link as a probe does."""
        if sent_us > self._tripped_us and not self._untried:
            self._count(rtt_us=rtt_us, now_us=now_us)

    # -- inside -------------------------------------------------------------------------------------------

    def _every_us(self, now_us: int) -> int:
        """How often the link is asked: often, but not on a link that costs money and stays bad."""
        patient = self.in_budget or now_us - self._over_since_us < METERED_PATIENCE_US
        return PING_EVERY_US if patient or not self._metered else METERED_EVERY_US

    def _probes_needed(self, now_us: int) -> int:
        """Twice as many for each trip soon after a return; forgotten again within 5 s."""
        halvings = (now_us - self._tripped_us) // (FLAP_SPAN_US // 2)
        return max(PROBES_TO_RETURN, self._needed >> min(halvings, 8))

    def _judge(self, *, above: bool, now_us: int, words: str) -> None:
        self._last_three.append(above)
        if above and sum(self._last_three) >= 2:
            self._trip(now_us, words)

    def _enter(self, now_us: int) -> None:
        self._next_known = False
        self.in_budget = True
        self.reason = ""
        self._vanished = False
        self._good_probes = 0
        self._last_three.clear()
        self._returned_us = now_us

    def _trip(self, now_us: int, reason: str) -> None:
        self._good_probes = 0
        if not self.in_budget:
            if not self.connected:
                self.reason = reason
            return
        returned_us = self._returned_us
        flapping = returned_us is not None and now_us - returned_us < FLAP_SPAN_US
        needed = self._probes_needed(now_us) * (2 if flapping else 1)
        self._needed = min(needed, MOST_PROBES_TO_RETURN)
        self._tripped_us = now_us
        self._next_probe_us = now_us + PROBE_EVERY_US
        self._over_since_us = now_us
        self.in_budget = False
        self.reason = reason

    def _count(self, *, rtt_us: int | None, now_us: int) -> bool:
        if self.in_budget:
            return False
        if rtt_us is None or rtt_us > self._below_us:
            self._good_probes = 0
            return False
        self._good_probes += 1
        if self._good_probes < self._probes_needed(now_us):
            return False
        self._enter(now_us)
        return True
