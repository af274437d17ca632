"""Faults nobody foresaw fill no disk: of each, a line with its traceback at once, then one a minute with the count.

For the handlers of a command's log. Loops that must live go on after any exception and log it; one that fails at each
turn would write thousands of tracebacks an hour. A fault is the place that logs it, the exception's type and the names
it is said of (text among the arguments, not numbers). What is remembered is bounded. `LogThrottle`, which does the same
for trouble that is foreseen, keeps its own count: lines that it lets through pass.
"""

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from pipelines import log_throttle
from pipelines.runtime import monotonic_us

MOST_FAULTS = 256

Fault = tuple[str, int, type[BaseException] | None, tuple[str, ...]]


@dataclass(slots=True)
class _Said:
    at_us: int
    kept_back: int = 0


class FaultFilter(logging.Filter):
    """`clock_us`: µs of a monotonic clock."""

    def __init__(self, *, clock_us: Callable[[], int] = monotonic_us) -> None:
        super().__init__()
        self._clock_us = clock_us
        self._lock = threading.Lock()
        self._said: OrderedDict[Fault, _Said] = OrderedDict()

    def filter(self, record: logging.LogRecord) -> bool:
        if not record.exc_info or record.pathname == log_throttle.__file__:
            return True
        now_us = self._clock_us()
        fault = _fault(record)
        with self._lock:
            said = self._said.get(fault)
            if said is not None and now_us - said.at_us < log_throttle.EVERY_US:
                said.kept_back += 1
                return False
            self._said[fault] = _Said(now_us)
            self._said.move_to_end(fault)
            if len(self._said) > MOST_FAULTS:
                self._said.popitem(last=False)
        if said is not None and said.kept_back:
            since_s = (now_us - said.at_us) / 1e6
            record.msg = (
                f"{record.getMessage()} (and {said.kept_back} times more in the last {since_s:.0f} s)"
            )
            record.args = None
        return True


def _fault(record: logging.LogRecord) -> Fault:
    arguments = record.args if isinstance(record.args, tuple) else ()
    names = tuple(a for a in arguments if isinstance(a, str))
    return record.pathname, record.lineno, record.exc_info[0] if record.exc_info else None, names
