"""Nothing a doctor asks may keep it: a step that does not come back in time is left behind and said to hang."""

import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import NoReturn, TypeVar

from pipelines.errors import NearfarError, Retryable

T = TypeVar("T")
Limit = Callable[[float], float]
"""From the seconds a step would like to those it gets."""
_LEAST_S = 0.1
_NAME = "doctor-"


class LateError(Retryable):
    """A step gave no answer in its time."""


def allowance(total_s: float) -> Limit:
    """Limits that together end `total_s` from now, but for a moment each."""
    until_s = time.monotonic() + total_s
    return lambda own_s: max(_LEAST_S, min(own_s, until_s - time.monotonic()))


def as_asked(own_s: float) -> float:
    """The limit of a step that is alone."""
    return own_s


def within(limit_s: float, step: Callable[[], T], what: str) -> T:
    """What `step` returns or raises. LateError after `limit_s`; its thread is then left behind."""
    answer: SimpleQueue[Callable[[], T]] = SimpleQueue()

    def run() -> None:
        try:
            value = step()
        except BaseException as error:  # noqa: BLE001 - raised again by who asked
            answer.put(_raising(error))
        else:
            answer.put(lambda: value)

    threading.Thread(target=run, name=f"{_NAME}{what}", daemon=True).start()
    try:
        result = answer.get(timeout=limit_s)
    except Empty:
        raise LateError(f"{what} gave no answer within {limit_s:g} s") from None
    return result()


def _raising(error: BaseException) -> Callable[[], NoReturn]:
    def again() -> NoReturn:
        raise error

    return again


def words_of(error: Exception) -> str:
    """An error as one line a person can read."""
    if isinstance(error, NearfarError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return f"{type(error).__name__}: {error}"


def anything_hangs() -> bool:
    """Whether a step was left behind and still runs: the process must then not wait for its threads."""
    return any(t.name.startswith(_NAME) and t.is_alive() for t in threading.enumerate())
