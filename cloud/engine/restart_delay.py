"""How long an engine that ended waits before it starts again. Sans-IO: times are arguments, in µs."""

AT_ONCE_US = 0
FIRST_US = 200_000
MOST_US = 5_000_000
SOUND_AFTER_US = 30_000_000


class RestartDelay:
    """0 for the first end in a row, then 0.2 s, doubled up to 5 s. An engine that was ready for 30 s has proven itself:
    its end is a first one again."""

    def __init__(self) -> None:
        self.in_a_row = 0

    def after(self, ready_us: int) -> int:
        """The wait after an engine ended that had been ready for `ready_us`."""
        if ready_us >= SOUND_AFTER_US:
            self.in_a_row = 0
        self.in_a_row += 1
        if self.in_a_row == 1:
            return AT_ONCE_US
        return int(min(FIRST_US * 2 ** min(self.in_a_row - 2, 10), MOST_US))
