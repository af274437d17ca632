"""A program that reports what it has done, and is killed by SIGKILL while it does more."""

import signal
import subprocess
import sys

Report = tuple[str, range]
"""What was done, and to which seqs."""


def reports_until_killed(program: str, *arguments: str, lines: int) -> list[Report]:
    """Runs Python text that prints lines `WHAT FIRST LAST` for ever, kills it after `lines` of them, and gives what it
    had reported until then; a line cut off by the kill was not."""
    child = subprocess.Popen([sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    with child:
        said = [child.stdout.readline() for _ in range(lines)]
        child.send_signal(signal.SIGKILL)
        said += child.stdout.readlines()
    whole = [line.split() for line in said if line.count(" ") == 2 and line.endswith("\n")]
    return [(what, range(int(first), int(last) + 1)) for what, first, last in whole]
