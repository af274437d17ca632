"""What every command of this project does as a process: exit codes, logs, signals, the ready line.

Exit codes: 0 done, 1 failure or a promise broken, 2 usage or configuration (with the command that mends
it), 130 interrupted. Logs go to stderr, so that stdout stays for answers and the one JSON ready line.
"""

import contextlib
import errno
import json
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from nearfar.fault_filter import FaultFilter
from pipelines.errors import ConfigError, DataFileError, NearfarError

DONE, FAILED, MISCONFIGURED, INTERRUPTED = 0, 1, 2, 130
LOG_LEVELS = ("debug", "info", "warning", "error")
_STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
SAME_WISH_S = 1.0
_OUTPUT_FAILED = (errno.EPIPE, errno.ENOSPC, errno.EIO, errno.EBADF, errno.EFBIG, errno.EDQUOT)


def set_up_logging(level: str = "warning") -> None:
    """Plain lines on stderr, `level` (one of LOG_LEVELS) and above; a fault that comes again and again once a minute."""
    logging.basicConfig(
        stream=sys.stderr,
        level=level.upper(),
        format="%(asctime)s %(levelname)-7s %(name)s: %(message)s",
        force=True,
    )
    faults = FaultFilter()
    for handler in logging.getLogger().handlers:
        handler.addFilter(faults)


def ready(**fields: Any) -> None:
    """Tell whoever started us, in one JSON line on stdout, that we serve: `{"ready": true, ...}`."""
    if sys.stdout is None:  # started with its output closed: nobody listens
        return
    # One write: print would write the line's end by itself, and another thread's output could come between.
    sys.stdout.write(json.dumps({"ready": True, **fields}) + "\n")
    sys.stdout.flush()


def stop_on_signals(then: Callable[[], None] | None = None) -> threading.Event:
    """An event set by the first SIGTERM, SIGINT or SIGHUP, after which `then` is called; a second one, a second or
    more later, ends the process (supervisors signal a process and its group in one breath: that is one wish).
    A SIGHUP that was ignored from the start (`nohup`) stays ignored.

    Call once, from the main thread. Python runs signal handlers between any two steps of the main thread,
    where setting an Event could meet its own lock; so the handler does nothing and a thread reads the
    signal's number from the wake-up socket. It works even while the main thread is inside C code.
    """
    stop = threading.Event()
    reading, writing = socket.socketpair()
    writing.setblocking(False)
    signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)
    stopping = [n for n in _STOPPING if n != signal.SIGHUP or signal.getsignal(n) is not signal.SIG_IGN]
    for number in stopping:
        signal.signal(number, _noted)

    def watch() -> None:
        asked_s = 0.0
        with reading, writing:
            while number := reading.recv(1):
                if number[0] not in stopping:
                    continue
                if stop.is_set() and time.monotonic() - asked_s < SAME_WISH_S:
                    continue
                if stop.is_set():
                    print("stopped at once by a second signal", file=sys.stderr, flush=True)
                    os._exit(128 + number[0])
                asked_s = time.monotonic()
                stop.set()
                if then is not None:
                    then()

    threading.Thread(target=watch, name="signals", daemon=True).start()
    return stop


def hear_signals_again() -> None:
    """After `stop_on_signals`, on the main thread: a library (Ray) has put handlers of its own below Python's, where no
    `signal.getsignal` shows them."""
    for number in _STOPPING:
        if signal.getsignal(number) is _noted:
            signal.signal(number, _noted)


def _noted(_number: int, _frame: FrameType | None) -> None:
    """A handler must exist for the wake-up socket to hear of the signal."""


def leave(code: int) -> NoReturn:
    """End the process now, without waiting for threads that are inside C code."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
    os._exit(code)


def main_guard(run: Callable[[], int | None]) -> int:
    """The exit code of `run`, every error it lets out told in words on stderr.

    `run` returns its own exit code, None for done. Errors that are nobody's fault but ours keep their
    traceback: they are what a report needs.
    """
    try:
        code = run() or DONE
        if sys.stdout is not None:
            sys.stdout.flush()  # what fails now would fail at the end of the process, where nobody can tell it
    except ConfigError as error:
        for problem in error.problems:
            print(problem if problem.placed else f"error: {problem}", file=sys.stderr)
        files = sorted({p.file for p in error.problems if p.file and not p.file.startswith("--set")})
        for file in files:
            if _is_file(file) and not isinstance(error, DataFileError):
                print(f"mend it, then try: nearfar check {file}", file=sys.stderr)
        if not files and any(p.file for p in error.problems):
            print("the paths and their values: nearfar schema", file=sys.stderr)
        return MISCONFIGURED
    except NearfarError as error:
        print(f"error: {error}", file=sys.stderr)
        return FAILED
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:  # no file that exists can have asked for it
            print(f"error: {error.filename or 'a path'}: {error.strerror}", file=sys.stderr)
            return MISCONFIGURED
        # A failed write to an open file names no file; ours are told at their own doors, this one is our output.
        if error.filename is not None or error.errno not in _OUTPUT_FAILED:
            raise
        if not isinstance(error, BrokenPipeError):  # that is `nearfar records | head`, and nobody's fault
            print(f"error: the output cannot be written: {error.strerror}", file=sys.stderr)
        _give_output_up()
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def _is_file(path: str) -> bool:
    try:
        return Path(path).is_file()
    except OSError:
        return False


def _give_output_up() -> None:
    """No more can be said on standard output; what waits there must not fail again when the process ends."""
    if sys.stdout is None:
        return
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
