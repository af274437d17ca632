"""Threads that only decide and hand on run before every other program, where the system permits it.

A timer that is due in the middle of another program's turn waits until that turn ends: 4 ms and more on a busy core, and
an answer is handed on three times between its decision and its release. At the lowest real-time priority these threads
wait for none of it. They work for a millisecond or two per frame; what computes
(near, encoder, capture) stays an ordinary thread, so that a gateway never stands still for it. Not permitted, or not
Linux: nothing changes.
"""

import os
import threading
from collections.abc import Collection
from contextlib import suppress

PRIORITY = 1
"""The lowest there is: everything on the gateway that asked for real time itself goes before us."""


def precede(names: Collection[str]) -> list[str]:
    """Puts the living threads of these names first; those it was permitted for, by name. What they start stays ordinary."""
    if not hasattr(os, "SCHED_RR"):  # pragma: no cover - only Linux has it
        return []
    done = []
    for thread in threading.enumerate():
        if thread.name in names and thread.native_id is not None:
            with suppress(OSError):  # not permitted, or just ended
                policy = os.SCHED_RR | os.SCHED_RESET_ON_FORK
                os.sched_setscheduler(thread.native_id, policy, os.sched_param(PRIORITY))
                done.append(thread.name)
    return sorted(done)
