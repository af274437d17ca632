"""When payloads must leave the link alone: since they go, fewer of the frames sent far come back in time.

What the link can do without them is measured while none goes; with nothing measured yet, everything. Falling short of it
pauses payloads for a while that doubles with every time it follows, so a link that is too narrow for both is left to the
frames. Sans-IO: counts and µs of the monotonic clock come in.
"""

from collections import deque

WINDOW_US = 2_000_000
LEAST_FRAMES = 10
FALL = 0.05
PAUSE_US = 2_000_000
PAUSE_AT_MOST_US = 60_000_000
CALM_US = 10_000_000
_SIGMAS = 1.5  # of what chance alone does to a share of so few frames
_NEW = 0.3  # weight of the newest measurement without payloads


class PauseRule:
    """`observe` counts that only rise; `sent` when a piece of a payload goes."""

    def __init__(self) -> None:
        self._seen: deque[tuple[int, int, int]] = deque()
        self._sent_us: int | None = None
        self._usual: float | None = None
        self._pause_us = PAUSE_US
        self._until_us = 0
        self._ended_us = 0

    @property
    def until_us(self) -> int:
        """No piece before then."""
        return self._until_us

    def sent(self, now_us: int) -> None:
        self._sent_us = now_us

    def observe(self, *, offloaded: int, far: int, now_us: int) -> None:
        """Frames sent far since the start, and far answers given."""
        self._seen.append((now_us, offloaded, far))
        while len(self._seen) > 1 and now_us - self._seen[1][0] >= WINDOW_US:
            self._seen.popleft()
        share = self._share(now_us)
        if share is None:
            return
        if self._sent_us is None or now_us - self._sent_us >= WINDOW_US:
            self._usual = share if self._usual is None else _NEW * share + (1 - _NEW) * self._usual
            self._seen.clear()  # each measurement counts once
        elif now_us >= self._until_us:
            self._judge(share, now_us)

    def _share(self, now_us: int) -> float | None:
        first_us, offloaded, far = self._seen[0]
        sent = self._seen[-1][1] - offloaded
        if now_us - first_us < WINDOW_US or sent < LEAST_FRAMES:
            return None
        return min(1.0, (self._seen[-1][2] - far) / sent)

    def _judge(self, share: float, now_us: int) -> None:
        usual = 1.0 if self._usual is None else self._usual
        frames = self._seen[-1][1] - self._seen[0][1]
        chance = _SIGMAS * (usual * (1 - usual) / frames) ** 0.5
        if share >= usual - FALL - chance:
            if now_us - self._ended_us >= CALM_US:
                self._pause_us = PAUSE_US
            return
        # So long that what the link can do is measured anew.
        self._until_us = now_us + WINDOW_US + self._pause_us
        self._ended_us = self._until_us
        self._pause_us = min(2 * self._pause_us, PAUSE_AT_MOST_US)
        self._seen.clear()
