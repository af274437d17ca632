"""Weighted fair shares of one scarce thing (near time, link bytes) among streams: 4:2:1 untuned, with a floor.

Use decays by half every `HALF_LIFE_US`; the stream with the least use per weight comes first, and one that
got nothing for `FLOOR_US` comes before all others, so that no priority starves another. Weighted fair
queueing (Demers, Keshav, Shenker 1989) with forgetting in place of virtual time.
"""

from collections.abc import Mapping

from pipelines.result import Priority

WEIGHTS: Mapping[Priority, float] = {Priority.HIGH: 4.0, Priority.NORMAL: 2.0, Priority.LOW: 1.0}
HALF_LIFE_US = 2_000_000
FLOOR_US = 1_000_000
ACTIVE_US = 1_000_000
NEVER_ASKED_US = -(1 << 62)
REBASE_US = 200 * HALF_LIFE_US
"""So long after units were one they are made one again, far from where a float ends."""
SLACK = 1.1
"""A stream is ahead of its share only when it is clearly so."""


class _Stream:
    __slots__ = ("asked_us", "served_us", "use", "weight")

    def __init__(self, weight: float, now_us: int) -> None:
        self.weight = weight
        self.asked_us = now_us
        self.served_us = now_us
        self.use = 0.0


class FairShare:
    """`asked` says that a stream wants some of it, `charge` that it got some.

    Use is kept in units that double every `HALF_LIFE_US`: what was used fades against what is used without being touched,
    and who had more than who needs no clock."""

    def __init__(self, weights: Mapping[Priority, float] = WEIGHTS) -> None:
        self._weights = weights
        self._streams: dict[str, _Stream] = {}
        self._since_us = 0  # when a unit was one

    def asked(self, stream: str, priority: Priority, now_us: int) -> None:
        one = self._streams.get(stream)
        if one is None:
            self._streams[stream] = _Stream(self._weights[priority], now_us)
        else:
            one.weight = self._weights[priority]
            one.asked_us = now_us

    def charge(self, stream: str, amount: float, now_us: int) -> None:
        if now_us - self._since_us > REBASE_US:
            self._rebase(now_us)
        one = self._streams.get(stream)
        if one is None:
            one = self._streams[stream] = _Stream(0.0, now_us)
            one.asked_us = NEVER_ASKED_US
        one.use += amount * 2.0 ** ((now_us - self._since_us) / HALF_LIFE_US)
        one.served_us = now_us

    def starved(self, stream: str, now_us: int) -> bool:
        """Whether the stream has waited longer than the floor allows."""
        one = self._streams.get(stream)
        return one is not None and now_us - one.served_us >= FLOOR_US

    def rank(self, stream: str, priority: Priority, now_us: int) -> tuple[bool, float, float]:
        """Who comes first: the smallest."""
        weight = self._weights[priority]
        one = self._streams.get(stream)
        use = 0.0 if one is None else one.use
        return not self.starved(stream, now_us), use / weight, -weight

    def ahead(self, stream: str, now_us: int) -> bool:
        """Whether the stream had more than its weighted share among those who ask at present."""
        own = self._streams.get(stream)
        since_us = now_us - ACTIVE_US
        if own is None or own.asked_us <= since_us or now_us - own.served_us >= FLOOR_US:
            return False
        use = weights = 0.0
        for one in self._streams.values():
            if one.asked_us > since_us:
                use += one.use
                weights += one.weight
        return own.use > SLACK * (use * own.weight / weights)

    def _rebase(self, now_us: int) -> None:
        fade = 0.5 ** ((now_us - self._since_us) / HALF_LIFE_US)
        for one in self._streams.values():
            one.use *= fade
        self._since_us = now_us
