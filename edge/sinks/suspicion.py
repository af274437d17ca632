"""When a receiver that goes away is to be put down to the parcel it was given.

A receiver that was there, took other things and ended the connection, or said no more, at one parcel alone: a broker does so
at what it will never take, and a network or a restart does so by chance. It is put down to the parcel after FIRST
attempts; after each parcel given up without one delivered since, to the next one after twice as many, so that a
receiver that takes nothing at all costs few answers, and several bad ones in a row hold up nobody for ever.
"""

FIRST = 5


class Suspicion:
    def __init__(self) -> None:
        self._number = 0
        self._attempts = 0
        self._needed = FIRST

    @property
    def attempts(self) -> int:
        """At the present parcel."""
        return self._attempts

    def falls_on(self, number: int) -> bool:
        """The receiver went away at the parcel of this number, which was alone; whether it was so often enough."""
        if number != self._number:
            self._number, self._attempts = number, 0
        self._attempts += 1
        if self._attempts < self._needed:
            return False
        self._needed *= 2
        return True

    def clear(self) -> None:
        """The receiver took something."""
        self._number = self._attempts = 0
        self._needed = FIRST
