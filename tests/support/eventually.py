"""The one way tests wait: poll a condition, fail with words when its time is over."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(condition: Callable[[], T], within_s: float = 15.0, what: str = "the condition") -> T:
    """The first truthy value of `condition`; AssertionError if there is none in `within_s` seconds: many, for a machine that is
    busy with other things."""
    deadline = time.monotonic() + within_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {within_s} s (last: {value!r})")
        time.sleep(0.002)
