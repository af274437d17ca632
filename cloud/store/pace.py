"""How often the record store is written to: in groups, so that what a commit costs is paid for many frames at once.

Sans-IO. While commits are quick they come as often as they may; the writer is at work for at most a twentieth of the
time, as long as that makes a group wait no more than `MOST` times as long, or for company: a group of fewer than
`COMPANY` rows waits up to `LONGEST_US`. So on a slow disk or a busy machine groups grow by themselves. Agents wait a
second for an acknowledgement before they send a record again.
"""

SHARE = 20
MOST = 1.75  # with the default of 20 ms, an acknowledgement is still on its way within 50, if many rows come
COMPANY = 8  # rows cost hardly more than one
LONGEST_US = 160_000
_KEPT = 7 / 8  # of what was known of a commit's time, after each


class CommitPace:
    """`every_us`: never sooner after each other than this, however quick commits are; 0 = at once, however slow."""

    def __init__(self, every_us: int) -> None:
        self.every_us = every_us
        self._took_us = 0.0

    def gap_us(self, rows: int) -> int:
        """From the begin of one commit to the begin of the next, while so many rows wait for it."""
        longest_us = int(MOST * self.every_us)
        if self.every_us and rows < COMPANY:
            longest_us = max(longest_us, LONGEST_US)
        return max(self.every_us, min(longest_us, int(SHARE * self._took_us)))

    def took(self, took_us: int) -> None:
        """A group was committed and acknowledged in this time."""
        self._took_us = _KEPT * self._took_us + (1 - _KEPT) * took_us if self._took_us else float(took_us)
