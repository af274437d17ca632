"""What two workers do to each other on one server: a transaction ended for the sake of another is simply run again.

That is no trouble with the store, so nobody is told; only where it goes on is it an error for now.
"""

from collections.abc import Callable
from typing import TypeVar

from pipelines.errors import Retryable

T = TypeVar("T")

_TRIES = 4


class Contended(Retryable):
    """Another transaction was in the way and is most likely over: the same one may be run again at once."""


def in_turn(transaction: Callable[[], T]) -> T:
    """What it returns, run up to four times while it is Contended."""
    for _ in range(_TRIES - 1):
        try:
            return transaction()
        except Contended:
            continue
    return transaction()
