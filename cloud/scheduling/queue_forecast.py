"""How long a new frame would wait for its run to start. Pure arithmetic over µs."""

from collections.abc import Sequence


def residual_us(*, expected_us: int, late_us: int, elapsed_us: int) -> int:
    """What is left of a run that began `elapsed_us` ago and usually takes `expected_us`, seldom more than `late_us`.

    One far beyond that says nothing of its end: it is taken to go on for as long as it was overdue, so that
    behind a run that hangs frames are refused and not collected.
    """
    return max(0, expected_us - elapsed_us, elapsed_us - 2 * max(late_us, expected_us))


def start_delay_us(free_in_us: Sequence[int], *, runs: int, run_us: int) -> int:
    """When the run after `runs` others starts, on instances that are free after `free_in_us` (0: now), each run taking
    `run_us`.

    One that stays busy beyond the time the others need for everything is left out.
    """
    free = sorted(free_in_us)
    while len(free) > 1 and free[-1] > free[0] + run_us * (runs // len(free) + 1):
        free.pop()
    rounds, place = divmod(runs, len(free))
    return free[place] + rounds * run_us
