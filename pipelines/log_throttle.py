"""Trouble that may come with every frame, said so that it fills no disk: the first at once in full, then a line a minute.

Each subject (a stream, a model) has its own lines, and in it each kind of trouble. A line says how many were kept back. That
a subject works again is said once, when nothing has failed for CALM_US: one that fails at every other frame does not work. What
is remembered is bounded. Thread-safe; time comes in as a clock.
"""

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from pipelines.runtime import monotonic_us

EVERY_US = 60_000_000
CALM_US = 10_000_000
MOST_SUBJECTS = 256
_MOST_KINDS = 16


@dataclass(slots=True)
class _Trouble:
    count: int = 0
    last_us: int = 0
    said_us: dict[str, int] = field(default_factory=dict)
    kept_back: dict[str, int] = field(default_factory=dict)


class LogThrottle:
    """Lines go to `log`. `clock_us`: µs of a monotonic clock."""

    def __init__(self, log: logging.Logger, *, clock_us: Callable[[], int] = monotonic_us) -> None:
        self._log = log
        self._clock_us = clock_us
        self._lock = threading.Lock()
        self._troubles: OrderedDict[str, _Trouble] = OrderedDict()

    @property
    def subjects(self) -> int:
        """How many there is trouble of."""
        return len(self._troubles)

    def failed(self, subject: str, words: str, *, kind: str = "", error: BaseException | None = None) -> None:
        """`subject` failed, as `words` go on to say. `error` is shown with its traceback: for what nobody foresaw."""
        kind = kind or type(error).__name__
        now_us = self._clock_us()
        with self._lock:
            trouble = self._troubles.setdefault(subject, _Trouble())
            self._troubles.move_to_end(subject)
            while len(self._troubles) > MOST_SUBJECTS:
                self._troubles.popitem(last=False)
            trouble.count += 1
            trouble.last_us = now_us
            if kind not in trouble.said_us and len(trouble.said_us) >= _MOST_KINDS:
                kind = next(iter(trouble.said_us))
            before_us = trouble.said_us.get(kind)
            if before_us is not None and now_us - before_us < EVERY_US:
                trouble.kept_back[kind] = trouble.kept_back.get(kind, 0) + 1
                return
            kept_back = trouble.kept_back.pop(kind, 0)
            trouble.said_us[kind] = now_us
        more = f" (and {kept_back} times more in the last {(now_us - (before_us or 0)) / 1e6:.0f} s)"
        level = logging.WARNING if error is None else logging.ERROR
        self._log.log(level, "%s %s%s", subject, words, more if kept_back else "", exc_info=error)

    def worked(self, subject: str) -> None:
        """`subject` did what it should. Costs nothing while nothing fails."""
        if not self._troubles:
            return
        with self._lock:
            trouble = self._troubles.get(subject)
            if trouble is None or self._clock_us() - trouble.last_us < CALM_US:
                return
            del self._troubles[subject]
        self._log.warning("%s works again, after %s", subject, _times(trouble))

    def end(self) -> None:
        """Nothing more comes: say what was kept back."""
        with self._lock:
            troubles = [*self._troubles.items()]
            self._troubles.clear()
        for subject, trouble in troubles:
            if any(trouble.kept_back.values()):
                self._log.warning("%s failed to the end: %s", subject, _times(trouble))


def _times(trouble: _Trouble) -> str:
    return "1 failure" if trouble.count == 1 else f"{trouble.count} failures"
