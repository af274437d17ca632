"""Threads that only decide and hand on run before every other program, where the system permits it.

A timer that is due in the middle of another program's turn waits until that turn ends: 4 ms and more on a busy core, and
an answer is handed on three times between its decision and its release. At the lowest real-time priority these threads
wait for none of it. They work for a millisecond or two per frame; what computes (near, encoder, capture) stays an ordinary
thread. Who decides goes before those that hand on: of one priority each would have its turn to the end, and the outbox's
is long when it tidies (10 ms, and an answer came 8 ms late by it). One that works on and on, whatever the reason, would take nearly the whole core from those (measured: capture
late by a second): it is an ordinary one until it is quiet again. Not permitted, or not Linux: nothing changes.
"""

import logging
import os
import threading
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pipelines.log_throttle import LogThrottle

log = logging.getLogger(__name__)

PRIORITY = 1
"""The lowest there is: everything on the gateway that asked for real time itself goes before us."""
DECIDES = PRIORITY + 1
ORDINARY = 0
LOOK_EVERY_S = 0.5
MOST = 0.6
"""The share of a core between two looks above which a thread goes first no more."""
QUIET = 0.2
"""The share below which it does again."""


class Precedence:
    """Puts threads first and looks after them. `start` may be called once; `close` leaves them as they are."""

    def __init__(self) -> None:
        self._over = threading.Event()
        self._watched: list[_Watched] = []
        self._trouble = LogThrottle(log)
        self._thread = threading.Thread(target=self._run, name="precedence", daemon=True)

    def start(self, *, decide: Collection[str] = (), hand_on: Collection[str] = ()) -> list[str]:
        """Puts the living threads of these names first, those that decide before the others; those it was permitted
        for, by name. What they start stays ordinary."""
        if not hasattr(os, "SCHED_RR"):  # pragma: no cover - only Linux has it
            return []
        priorities = dict.fromkeys(hand_on, PRIORITY) | dict.fromkeys(decide, DECIDES)
        for thread in threading.enumerate():
            priority = priorities.get(thread.name)
            if priority is not None and thread.native_id is not None:
                granted = _granted(thread.native_id, priority)
                if granted != ORDINARY:
                    self._watched.append(_Watched(thread.name, thread.native_id, granted))
        if self._watched:
            self._thread.start()
        return sorted(watched.name for watched in self._watched)

    def close(self) -> None:
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join(LOOK_EVERY_S)

    def _run(self) -> None:
        _granted(threading.get_native_id(), DECIDES)  # else it would never look while one of them works on
        while not self._over.wait(LOOK_EVERY_S):
            for watched in self._watched:
                with suppress(OSError, ValueError):  # it has ended, or this system does not tell
                    if watched.works_on():
                        words = "works without a pause: until it is quiet it waits its turn"
                        self._trouble.failed(f"thread {watched.name}", words, kind="busy")


@dataclass(slots=True)
class _Watched:
    name: str
    native_id: int
    priority: int
    first: bool = True
    seen_s: float = 0.0
    ran_s: float = 0.0

    def works_on(self) -> bool:
        """Looks at it; whether it has to wait its turn from now on."""
        now_s, ran_s = time.monotonic(), _ran_s(self.native_id)
        share = (ran_s - self.ran_s) / (now_s - self.seen_s) if self.seen_s else QUIET
        self.seen_s, self.ran_s = now_s, ran_s
        if self.first and share > MOST:
            _put(self.native_id, ORDINARY)
            self.first = False
            return True
        if not self.first and share < QUIET:
            _put(self.native_id, self.priority)
            self.first = True
        return False


def _granted(native_id: int, priority: int) -> int:
    """The highest priority up to this one that was permitted, which the thread has now; ORDINARY = none, or it has ended."""
    for wanted in range(priority, ORDINARY, -1):
        with suppress(OSError):
            _put(native_id, wanted)
            return wanted
    return ORDINARY


def _put(native_id: int, priority: int) -> None:
    policy = os.SCHED_OTHER if priority == ORDINARY else os.SCHED_RR
    os.sched_setscheduler(native_id, policy | os.SCHED_RESET_ON_FORK, os.sched_param(priority))


def _ran_s(native_id: int) -> float:
    """What a thread has had of a core so far."""
    return int(Path(f"/proc/self/task/{native_id}/schedstat").read_text("ascii").split()[0]) / 1e9
