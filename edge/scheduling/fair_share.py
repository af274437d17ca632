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
UNUSED = (0.0, 0)
SLACK = 1.1
"""A stream is ahead of its share only when it is clearly so."""


class FairShare:
    """`asked` says that a stream wants some of it, `charge` that it got some."""

    def __init__(self, weights: Mapping[Priority, float] = WEIGHTS) -> None:
        self._weights = weights
        self._used: dict[str, tuple[float, int]] = {}  # stream -> (use, as of)
        self._asked: dict[str, tuple[Priority, int]] = {}
        self._served_us: dict[str, int] = {}

    def asked(self, stream: str, priority: Priority, now_us: int) -> None:
        self._asked[stream] = (priority, now_us)
        self._served_us.setdefault(stream, now_us)

    def charge(self, stream: str, amount: float, now_us: int) -> None:
        self._used[stream] = (self._use(stream, now_us) + amount, now_us)
        self._served_us[stream] = now_us

    def starved(self, stream: str, now_us: int) -> bool:
        """Whether the stream has waited longer than the floor allows."""
        served_us = self._served_us.get(stream)
        return served_us is not None and now_us - served_us >= FLOOR_US

    def rank(self, stream: str, priority: Priority, now_us: int) -> tuple[bool, float, float]:
        """Who comes first: the smallest."""
        weight = self._weights[priority]
        return not self.starved(stream, now_us), self._use(stream, now_us) / weight, -weight

    def ahead(self, stream: str, now_us: int) -> bool:
        """Whether the stream had more than its weighted share among those who ask at present."""
        # One pass: this is asked for every frame and link.
        own = own_weight = 0.0
        used = weights = 0.0
        count = 0
        asks = False
        for name, (priority, at_us) in self._asked.items():
            if now_us - at_us >= ACTIVE_US:
                continue
            use, as_of_us = self._used.get(name, UNUSED)
            if use and as_of_us != now_us:
                use = use * 0.5 ** ((now_us - as_of_us) / HALF_LIFE_US)
            weight = self._weights[priority]
            used += use
            weights += weight
            count += 1
            if name == stream:
                asks, own, own_weight = True, use, weight
        if count < 2 or not asks or self.starved(stream, now_us):
            return False
        return own > SLACK * (used * own_weight / weights)

    def _use(self, stream: str, now_us: int) -> float:
        use, at_us = self._used.get(stream, (0.0, now_us))
        if at_us == now_us:
            return use
        return float(use * 0.5 ** ((now_us - at_us) / HALF_LIFE_US))
