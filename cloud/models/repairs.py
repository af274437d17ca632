"""The instances of one model that broke and cannot be built anew: what is wrong with them, and when each is tried again.

A reason is said once, not at each try, and the end of it once; between the tries of an instance the wait doubles. Thread-safe.
"""

import logging
import threading

log = logging.getLogger(__name__)

FIRST_WAIT_S = 0.2
MOST_WAIT_S = 30.0


class Repairs:
    """Of the model `model` with `instances` instances."""

    def __init__(self, model: str, *, instances: int) -> None:
        self._model = model
        self._instances = instances
        self._lock = threading.Lock()
        self._why: dict[int, str] = {}
        self._waits_s: dict[int, float] = {}

    def failed(self, instance: int, error: Exception) -> float:
        """It could not be built anew: how long to wait before the next try, in s."""
        words = str(error) or type(error).__name__
        with self._lock:
            news = words not in self._why.values()
            self._why[instance] = words
            wait_s = min(self._waits_s.get(instance, FIRST_WAIT_S / 2) * 2, MOST_WAIT_S)
            self._waits_s[instance] = wait_s
        if news:
            log.warning(
                "model %s cannot be rebuilt: %s; it is tried again, after %.1f s and ever less often, at least every %.0f s",
                self._model,
                words,
                wait_s,
                MOST_WAIT_S,
            )
        return wait_s

    def mended(self, instance: int) -> None:
        """It is there again."""
        with self._lock:
            was = self._why.pop(instance, "")
            self._waits_s.pop(instance, None)
            whole = not self._why
        if was and whole:
            log.warning("model %s is loaded again", self._model)

    @property
    def words(self) -> str:
        """What cannot be built anew, and why; empty when nothing is so."""
        with self._lock:
            why, count = sorted(set(self._why.values())), len(self._why)
        if not why:
            return ""
        which = "" if count == self._instances else f"{count} of {self._instances} instances of "
        return f"{which}model {self._model} cannot be rebuilt: {'; '.join(why)}"
