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
        asking = {s: self._weights[p] for s, (p, at_us) in self._asked.items() if now_us - at_us < ACTIVE_US}
        if len(asking) < 2 or stream not in asking or self.starved(stream, now_us):
            return False
        used = {s: self._use(s, now_us) for s in asking}
        entitled = sum(used.values()) * asking[stream] / sum(asking.values())
        return used[stream] > SLACK * entitled

    def _use(self, stream: str, now_us: int) -> float:
        use, at_us = self._used.get(stream, (0.0, now_us))
        if at_us == now_us:
            return use
        return float(use * 0.5 ** ((now_us - at_us) / HALF_LIFE_US))
