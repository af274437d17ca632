"""A step that may not keep its caller: it runs on a thread of its own, and is left behind when it does not come back.

Loading a model, asking a name server or opening a camera is C code that nothing interrupts. Whoever left a step
behind must not wait for threads at its end (`anything_hangs`, then `process.leave`).
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

from pipelines.errors import NearfarError, Retryable

T = TypeVar("T")
_LOOK_S = 0.02
_NAME = "bounded-"


class LateError(Retryable):
    """A step gave no answer in its time."""


class StoppedError(NearfarError):
    """A step was still at work when its process was told to stop."""


def within(limit_s: float, step: Callable[[], T], *, what: str) -> T:
    """What `step` returns or raises. LateError, which names it as `what`, after `limit_s`."""
    begun = _begin(step, what)
    wait([begun], limit_s)
    if not begun.done():
        raise LateError(f"{what} gave no answer within {seconds(limit_s)}")
    return begun.result()


def unless_stopped(stop: threading.Event, step: Callable[[], T], *, patience_s: float = 0.0) -> T:
    """What `step` returns or raises. StoppedError when it has not ended `patience_s` after `stop` was set."""
    begun = _begin(step, "start")
    while not wait([begun], _LOOK_S).done:
        if stop.is_set() and not wait([begun], patience_s).done:
            raise StoppedError("stopped before it had begun")
    return begun.result()


def seconds(limit_s: float) -> str:
    """A limit in words a person can read: two digits tell enough."""
    return f"{limit_s:.2g} s"


def anything_hangs() -> bool:
    """Whether a step was left behind and still runs: the process must then not wait for its threads."""
    return any(t.name.startswith(_NAME) and t.is_alive() for t in threading.enumerate())


def _begin(step: Callable[[], T], what: str) -> "Future[T]":
    end: Future[T] = Future()

    def run() -> None:
        try:
            end.set_result(step())
        except BaseException as error:  # noqa: BLE001 - raised again by who asked
            end.set_exception(error)

    threading.Thread(target=run, name=f"{_NAME}{what}", daemon=True).start()
    return end
