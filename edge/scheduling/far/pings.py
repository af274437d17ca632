"""Pings of one link: when the next is due, which are out, which are late, and whether the link is silent.

A ping is missed once it is out for longer than the band allows, and counted once. Sans-IO.
"""

PING_EVERY_US = 200_000
PINGS_TO_DIE = 3


class Pings:
    """`missed_after_us`: a ping out for that long counts as above the band."""

    def __init__(self, *, missed_after_us: int) -> None:
        self._missed_after_us = missed_after_us
        self._sent: dict[int, tuple[int, int]] = {}  # unanswered nonce -> (sent, late from)
        self._missed: set[int] = set()
        self.missed = 0
        """How many of those out are late already."""
        self._next_nonce = 1
        self._next_us = 0
        self._heard_us = 0

    def __len__(self) -> int:
        return len(self._sent)

    def restart(self, now_us: int) -> None:
        """A new connection: what is out will not be answered on it, and it is asked at once."""
        self.forget()
        self._heard_us = self._next_us = now_us

    def forget(self) -> None:
        self._sent.clear()
        self._missed.clear()
        self.missed = 0

    def heard(self, now_us: int) -> None:
        """Anything arrived on the link."""
        self._heard_us = now_us

    def postpone(self, now_us: int, every_us: int) -> None:
        """A live frame measured the link: no ping is needed for a while."""
        self._next_us = max(self._next_us, now_us + every_us)

    def hurry(self, now_us: int) -> None:
        """Something is wrong: ask now, unless a ping is out already."""
        if not self._sent:
            self._next_us = min(self._next_us, now_us)

    def due(self, now_us: int, every_us: int, *, excused_us: int = 0) -> int | None:
        """The nonce to send now, or None. `excused_us`: own bytes ahead of it take so long."""
        if now_us < self._next_us:
            return None
        nonce = self._next_nonce
        self._next_nonce += 1
        self._sent[nonce] = (now_us, now_us + self._missed_after_us + excused_us)
        self._next_us = now_us + every_us
        return nonce

    def sent_us(self, nonce: int) -> int | None:
        sent = self._sent.get(nonce)
        return None if sent is None else sent[0]

    def answered(self, nonce: int, now_us: int) -> bool:
        """Whether `nonce` was out; it and all older ones are settled."""
        if nonce not in self._sent:
            return False
        for old in [n for n in self._sent if n <= nonce]:
            del self._sent[old]
            self._missed.discard(old)
        self.missed = len(self._missed)
        self.heard(now_us)
        return True

    def late(self, now_us: int) -> int:
        """How many became late since this was asked last."""
        if not self._sent:
            return 0
        late = [
            nonce
            for nonce, (_, late_us) in self._sent.items()
            if nonce not in self._missed and now_us >= late_us
        ]
        self._missed.update(late)
        self.missed = len(self._missed)
        return len(late)

    def silent(self, now_us: int) -> bool:
        """Three pings are out unanswered and nothing at all was heard meanwhile."""
        return self.missed >= PINGS_TO_DIE and now_us >= self.silent_from_us()

    def silent_from_us(self) -> int:
        return self._heard_us + PINGS_TO_DIE * PING_EVERY_US

    def next_us(self) -> int:
        """When `due` or `late` has to be asked again."""
        next_us = self._next_us
        for nonce, (_, late_us) in self._sent.items():
            if late_us < next_us and nonce not in self._missed:
                next_us = late_us
        return next_us
