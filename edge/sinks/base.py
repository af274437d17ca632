"""Where answers go. A sink may be slow or broken: it has a thread and a bounded inbox of its own, so that
neither the dispatcher nor another sink ever notices, and every answer it did not get is counted.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from edge.inbox import Inbox
from edge.sinks.delivery.queue import QueueSight, QueueSink
from edge.sinks.resequencer import Resequencer
from pipelines.result import Answer
from pipelines.runtime import monotonic_us

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


@dataclass(frozen=True, slots=True)
class _Given:
    answer: Answer
    deadline_us: int


@dataclass(frozen=True, slots=True)
class _Unanswered:
    stream: str
    seq: int


class SinkThread:
    """Feeds one sink. `written`, `failed` and `dropped` (never blocked for) add up to the answers offered.

    With a `resequencer` the answers of each stream come in the order of their frames.
    """

    def __init__(
        self,
        sink: Sink,
        *,
        name: str,
        limit: int = DEFAULT_LIMIT,
        resequencer: Resequencer | None = None,
        clock_us: Callable[[], int] = monotonic_us,
    ) -> None:
        self._sink = sink
        self.name = name
        self._resequencer = resequencer
        self._clock_us = clock_us
        self._inbox: Inbox[_Given | _Unanswered] = Inbox(limit)
        self._thread = threading.Thread(target=self._run, name=f"sink-{name}", daemon=True)
        self.written = 0
        self.failed = 0
        self.last_error = ""
        self._refused = 0
        self._offered = 0  # by the one thread that offers
        self._closed = False

    @property
    def dropped(self) -> int:
        """Answers that found the inbox full or closed, or were still in it when the sink was given up."""
        if self._closed:
            return max(0, self._offered - self.written - self.failed)
        return self._refused

    @property
    def lost(self) -> int:
        """Answers that were offered and will not get to where the sink should have brought them."""
        queue = self.queue()
        if queue is None:
            return self.dropped + self.failed
        spool = queue.spool
        left = spool.waiting if self._closed and not queue.durable else 0
        return self.dropped + self.failed + spool.lost + left

    @property
    def drained(self) -> bool:
        """Whether everything offered so far is where it should be, or given up."""
        if self._ended:
            return True
        held = self._offered - self._refused - self.written - self.failed
        return held <= 0 and (not isinstance(self._sink, QueueSink) or self._sink.drained)

    def queue(self) -> QueueSight | None:
        """What waits for the receiver, None for a kind that keeps nothing back."""
        return self._sink.sight() if isinstance(self._sink, QueueSink) else None

    @property
    def trouble(self) -> str:
        """Why answers do not get through now, in words; empty when they do."""
        queue = self.queue()
        if queue is not None and queue.words:
            return queue.words
        return "its thread ended" if self._ended and not self._closed else ""

    @property
    def _ended(self) -> bool:
        return self._thread.ident is not None and not self._thread.is_alive()

    def summary(self) -> dict[str, int]:
        """Its counts, and those of its kind."""
        late = {} if self._resequencer is None else {"out_of_order": self._resequencer.late}
        return {
            "written": self.written,
            "dropped": self.dropped,
            "failed": self.failed,
            **late,
            **self._sink.counts(),
        }

    def start(self) -> None:
        if isinstance(self._sink, QueueSink):
            self._sink.start()
        self._thread.start()

    def offer(self, answer: Answer) -> bool:
        """Hand over an answer; returns at once, False if it was dropped."""
        self._offered += 1
        left_us = max(0, answer.deadline_us - answer.latency_us)
        if self._inbox.put(_Given(answer, self._clock_us() + left_us)):
            return True
        self._refused += 1
        return False

    def skip(self, stream: str, seq: int) -> None:
        """The frame gets no answer; returns at once. From any thread."""
        if self._resequencer is not None:
            self._inbox.put(_Unanswered(stream, seq))

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
        self._closed = True
        if not self._thread.is_alive():
            return True
        self.last_error = self.last_error or "it does not take any more"
        return False

    def _run(self) -> None:
        try:
            while (items := self._inbox.take(self._patience_s())) is not None:
                self._write(self._in_order(items))
            if self._resequencer is not None:
                self._write(self._resequencer.take_all())
        except Exception:
            log.exception("sink %s: its thread ends", self.name)
            self.last_error = "its thread ended"
        finally:
            self._inbox.close()
            self._guarded(self._sink.close)

    def _patience_s(self) -> float | None:
        due_us = None if self._resequencer is None else self._resequencer.due_us()
        return None if due_us is None else max(0, due_us - self._clock_us()) / 1e6

    def _in_order(self, items: Sequence[_Given | _Unanswered]) -> list[Answer]:
        if self._resequencer is None:
            return [item.answer for item in items if isinstance(item, _Given)]
        for item in items:
            if isinstance(item, _Given):
                self._resequencer.add(item.answer, deadline_us=item.deadline_us)
            else:
                self._resequencer.skip(item.stream, item.seq)
        return self._resequencer.take(self._clock_us())

    def _write(self, answers: Sequence[Answer]) -> None:
        if not answers:
            return
        unsure = 0
        for answer in answers:
            try:
                self._sink.write(answer)
                self.written += 1
                unsure += 1
            except BaseException as error:  # noqa: BLE001 - whatever a sink does stays its own trouble
                self.failed += 1
                self._complain(error)
        if not self._guarded(self._sink.flush):  # what was not flushed was not written
            self.written -= unsure
            self.failed += unsure

    def _guarded(self, step: Callable[[], None]) -> bool:
        try:
            step()
        except BaseException as error:  # noqa: BLE001 - as above
            self._complain(error)
            return False
        return True

    def _complain(self, error: BaseException) -> None:
        """Say each new kind of trouble once, not once per frame."""
        text = f"{type(error).__name__}: {error}"
        if text != self.last_error:
            self.last_error = text
            log.warning("sink %s: %s", self.name, text)
