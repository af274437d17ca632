"""Where the `nearfar` command begins: whoever is told to stop while it still loads what it needs has done nothing yet.

Commands that run until a signal end with 0 from their first step on, as they do later; nothing is captured, bound or opened
so early that would have to be given back. Imports next to nothing, or there would be a moment before it again.
"""

import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType

_UNTIL_STOPPED = ("edge", "cloud", "relay")
_ENDS_BY_ITSELF = ("--explain", "--write-config", "--help", "-h")
_STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main() -> None:
    """The console script."""
    if runs_until_stopped(sys.argv[1:]):
        for number in _STOPPING:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, _leave)  # until the command takes them over
    from nearfar.cli.main import main as command  # noqa: PLC0415 - the first of what takes time

    command()


def runs_until_stopped(arguments: Sequence[str]) -> bool:
    """Whether this command line serves until a signal ends it."""
    name = next((word for word in arguments if not word.startswith("-")), "")
    return name in _UNTIL_STOPPED and not any(word.startswith(_ENDS_BY_ITSELF) for word in arguments)


def _leave(_number: int, _frame: FrameType | None) -> None:
    os.write(2, b"stopped before it had begun\n")
    os._exit(0)
