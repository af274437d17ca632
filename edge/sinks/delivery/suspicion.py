"""When a receiver that goes away is to be put down to the parcel it was given, and how soon that parcel is tried again.

A receiver that was there, took other things and ended the connection, or said no more, at one parcel alone: a broker does so
at what it will never take, and a network or a restart does so by chance. It is put down to the parcel after FIRST
attempts, for the next ones in a row after NEXT; what the receiver takes begins it anew. For the first IN_A_ROW the wait
between two attempts is at most WAIT_US, so that many bad ones hold up nobody for long (10 s each beside what the attempts
themselves take); beyond, the receiver takes nothing at all and the waits are as long as at any other failure, so that it
costs one answer in ten minutes. Sans-IO.
"""

FIRST = 5
NEXT = 10
IN_A_ROW = 64
WAIT_US = 1_000_000


class Suspicion:
    def __init__(self) -> None:
        self._number = 0
        self._attempts = 0
        self._in_a_row = 0

    @property
    def attempts(self) -> int:
        """At the present parcel."""
        return self._attempts

    @property
    def wait_at_most_us(self) -> int | None:
        """Between two attempts at a parcel that stands alone; None: as long as a failure waits."""
        return WAIT_US if self._in_a_row < IN_A_ROW else None

    def falls_on(self, number: int) -> bool:
        """The receiver went away at the parcel of this number, which was alone; whether it was so often enough."""
        if number != self._number:
            self._number, self._attempts = number, 0
        self._attempts += 1
        if self._attempts < (NEXT if self._in_a_row else FIRST):
            return False
        self._in_a_row += 1
        return True

    def clear(self) -> None:
        """The receiver took something."""
        self._number = self._attempts = self._in_a_row = 0
