"""Threads that end together: told first, then waited for within one time they share."""

import threading
import time
from collections.abc import Iterable


def left_after(threads: Iterable[threading.Thread], within_s: float) -> list[str]:
    """Wait for all of them, `within_s` in sum; the names of those that still run."""
    until_s = time.monotonic() + within_s
    begun = [thread for thread in threads if thread.ident is not None]
    for thread in begun:
        if thread is not threading.current_thread():
            thread.join(max(0.0, until_s - time.monotonic()))
    return [thread.name for thread in begun if thread.is_alive()]


def dead(threads: Iterable[threading.Thread]) -> list[str]:
    """In words, those that were started and have ended; asked while none of them should."""
    return [
        f"its thread {thread.name} has ended; the log says why, restart this worker"
        for thread in threads
        if thread.ident is not None and not thread.is_alive()
    ]
