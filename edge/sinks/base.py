"""Where answers go. A sink may be slow or broken: it has a thread and a bounded inbox of its own, so that
neither the dispatcher nor another sink ever notices, and every answer it did not get is counted.
"""

import logging
import threading
from collections.abc import Callable
from typing import Protocol

from edge.inbox import Inbox
from pipelines.result import Answer

log = logging.getLogger(__name__)

DEFAULT_LIMIT = 1024


class Sink(Protocol):
    """Used by one thread. May raise: the answer is then counted as failed and the next one is tried."""

    def write(self, answer: Answer) -> None: ...

    def flush(self) -> None:
        """Called when no further answer waits."""
        ...

    def close(self) -> None: ...

    def counts(self) -> dict[str, int]:
        """What this kind counts beyond the answers it took; may be asked from any thread."""
        ...


class SinkThread:
    """Feeds one sink. `written`, `failed` and `dropped` (never blocked for) add up to the answers offered."""

    def __init__(self, sink: Sink, *, name: str, limit: int = DEFAULT_LIMIT) -> None:
        self._sink = sink
        self.name = name
        self._inbox: Inbox[Answer] = Inbox(limit)
        self._thread = threading.Thread(target=self._run, name=f"sink-{name}", daemon=True)
        self.written = 0
        self.failed = 0
        self.last_error = ""
        self._abandoned = 0
        self._offered = 0  # by the one thread that offers

    @property
    def dropped(self) -> int:
        """Answers that found the inbox full or closed, or were still in it when the sink was given up."""
        return self._inbox.refused + self._abandoned

    def summary(self) -> dict[str, int]:
        """Its counts, and those of its kind."""
        return {
            "written": self.written,
            "dropped": self.dropped,
            "failed": self.failed,
            **self._sink.counts(),
        }

    def start(self) -> None:
        self._thread.start()

    def offer(self, answer: Answer) -> bool:
        """Hand over an answer; returns at once, False if it was dropped."""
        self._offered += 1
        return self._inbox.put(answer)

    def end(self) -> None:
        """Take nothing more; what waits is still written. Returns at once."""
        self._inbox.close()

    def close(self, timeout_s: float = 1.0) -> bool:
        """Write what waits and close the sink; False if that takes longer than `timeout_s`: what is still
        unwritten then counts as dropped."""
        self.end()
        if self._thread.ident is None:
            self._thread.start()
        self._thread.join(timeout_s)
        if not self._thread.is_alive():
            self._abandoned = 0
            return True
        self._abandoned = self._offered - self._inbox.refused - self.written - self.failed
        self.last_error = self.last_error or "it does not take any more"
        return False

    def _run(self) -> None:
        while (answers := self._inbox.take()) is not None:
            unsure = 0
            for answer in answers:
                try:
                    self._sink.write(answer)
                    self.written += 1
                    unsure += 1
                except Exception as error:  # noqa: BLE001 - whatever a sink does stays its own trouble
                    self.failed += 1
                    self._complain(error)
            if not self._guarded(self._sink.flush):  # what was not flushed was not written
                self.written -= unsure
                self.failed += unsure
        self._guarded(self._sink.close)

    def _guarded(self, step: Callable[[], None]) -> bool:
        try:
            step()
        except Exception as error:  # noqa: BLE001 - as above
            self._complain(error)
            return False
        return True

    def _complain(self, error: Exception) -> None:
        """Say each new kind of trouble once, not once per frame."""
        text = f"{type(error).__name__}: {error}"
        if text != self.last_error:
            self.last_error = text
            log.warning("sink %s: %s", self.name, text)
