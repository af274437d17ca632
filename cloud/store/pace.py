"""How often the record store is written to: in groups, so that what a commit costs is paid for many frames at once.

Sans-IO. While commits are quick they come as often as they may; the writer is at work for at most a twentieth of the
time, as long as that makes a group wait no longer than company is worth waiting for: until `COMPANY` rows are together,
or `LONGEST_US`, whichever is sooner, but always `MOST` times as long as it may. So on a slow disk or a busy machine
groups grow by themselves. Agents wait a second for an acknowledgement before they send a record again.
"""

SHARE = 20
MOST = 1.75  # with the default of 20 ms, an acknowledgement is still on its way within 50, if many rows come
COMPANY = 8  # rows cost hardly more than one
LONGEST_US = 160_000
_KEPT = 7 / 8  # of what was known of a commit's time, after each
_KEPT_RATE = 1 / 2  # more come all at once when a machine is busy


class CommitPace:
    """`every_us`: never sooner after each other than this, however quick commits are; 0 = at once, however slow."""

    def __init__(self, every_us: int) -> None:
        self.every_us = every_us
        self._took_us = 0.0
        self._rows_per_us = 0.0

    @property
    def gap_us(self) -> int:
        """From the begin of one commit to the begin of the next."""
        return max(self.every_us, min(self._longest_us, int(SHARE * self._took_us)))

    def took(self, took_us: int, *, rows: int, since_us: int) -> None:
        """A group of `rows` was committed and acknowledged in this time; it began `since_us` after the one before."""
        self._took_us = _KEPT * self._took_us + (1 - _KEPT) * took_us if self._took_us else float(took_us)
        self._rows_per_us = _KEPT_RATE * self._rows_per_us + (1 - _KEPT_RATE) * rows / max(1, since_us)

    @property
    def _longest_us(self) -> int:
        most_us = int(MOST * self.every_us)
        if not most_us or self._rows_per_us * most_us >= COMPANY:
            return most_us
        in_company_us = COMPANY / self._rows_per_us if self._rows_per_us else LONGEST_US
        return max(most_us, int(min(LONGEST_US, in_company_us)))
