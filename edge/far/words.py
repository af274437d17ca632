"""What the agent says about one link: that it went, that it is back, that it is over budget; nothing while it stays.

A change is said at once. A link that flaps has two lines in EVERY_US for each of both matters, and what happened
between them is told as a number. What is not there yet at the start, or right after a connection, has START_US.
"""

import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from edge.far.sight import LinkSight

log = logging.getLogger(__name__)

EVERY_US = 10_000_000
START_US = 2_000_000
_LINES = 2  # that it went and that it is back


@dataclass(frozen=True, slots=True, kw_only=True)
class _Word:
    """`was_missed`: it had been said that it is not good; `without_us` is how long it was not, `changes` what happened
    since the last word."""

    good: bool
    was_missed: bool
    without_us: int
    changes: int


class _Matter:
    """One thing that is good or not, watched from `now_us` on; `spoken` are the moments of the last words."""

    def __init__(self, now_us: int, spoken: deque[int]) -> None:
        self._spoken = spoken
        self._good = False
        self._bad_since_us = now_us
        self._not_before_us = now_us + START_US
        self._changes = 1
        self._missed = False

    def saw(self, *, good: bool, now_us: int) -> _Word | None:
        if good != self._good:
            self._good = good
            self._changes += 1
            self._not_before_us = now_us
            if not good:
                self._bad_since_us = now_us
        too_soon = len(self._spoken) == _LINES and now_us - self._spoken[0] < EVERY_US
        if not self._changes or now_us < self._not_before_us or too_soon:
            return None
        word = _Word(
            good=good,
            was_missed=self._missed,
            without_us=now_us - self._bad_since_us,
            changes=self._changes,
        )
        self._changes, self._missed = 0, not good
        if not word.good or word.was_missed:
            self._spoken.append(now_us)
        return word


class LinkWords:
    """Owned by the dispatcher thread. `near`: whether frames are answered without any link."""

    def __init__(self, *, near: bool) -> None:
        self._rest = "near answers the rest" if near else "the rest is missed"
        self._without = "near answers" if near else "frames are missed meanwhile"
        self._meanwhile = self._without
        self._spoken_of_budget: deque[int] = deque(maxlen=_LINES)
        self._connection: _Matter | None = None
        self._budget: _Matter | None = None
        self._data: _Matter | None = None

    def saw(self, sight: LinkSight, now_us: int, *, carried_by: Sequence[str] = ()) -> None:
        """The link looked like this at `now_us` of a monotonic clock; `carried_by`: links that can do without it."""
        self._meanwhile = f"{' and '.join(carried_by)} can carry the frames" if carried_by else self._without
        if sight.budget_left_bytes is not None:
            self._saw_data(sight, now_us)
        if self._connection is None:
            self._connection = _Matter(now_us, deque(maxlen=_LINES))
        if (word := self._connection.saw(good=sight.connected, now_us=now_us)) is not None:
            self._say_connection(sight, word)
        if not sight.connected:
            self._budget = None  # a link that is not there is not measured either
            return
        if sight.budget_low and not sight.silent:
            return  # no frame goes whatever is measured, and little is
        if self._budget is None:
            self._budget = _Matter(now_us, self._spoken_of_budget)
        if (word := self._budget.saw(good=sight.in_budget, now_us=now_us)) is not None:
            self._say_budget(sight, word)

    def _saw_data(self, sight: LinkSight, now_us: int) -> None:
        if self._data is None:
            self._data = _Matter(now_us, deque(maxlen=_LINES))
        word = self._data.saw(good=not sight.budget_low, now_us=now_us)
        if word is None or (word.good and not word.was_missed):
            return
        if word.good:
            words = f"frames may go again: the data budget has refilled after {word.without_us / 1e6:.0f} s"
        else:
            words = f"the data budget is used up; {self._meanwhile} until it refills"
        _say(sight, words, word)

    def _say_connection(self, sight: LinkSight, word: _Word) -> None:
        if not word.good:
            words = f"no connection: {sight.reason}; {self._meanwhile}, it is tried again"
        elif word.was_missed:
            words = f"back after {word.without_us / 1e6:.1f} s"
        else:
            words = "connected"
        _say(sight, words, word)

    def _say_budget(self, sight: LinkSight, word: _Word) -> None:
        if not word.good:
            meanwhile = (
                f"only frames that look worth it go, {self._rest}" if sight.selective else self._meanwhile
            )
            words = f"over budget: {sight.reason}; {meanwhile}, it is measured on"
        elif word.was_missed:
            words = f"in budget again after {word.without_us / 1e6:.1f} s"
        else:
            words = "in budget"
        _say(sight, words, word)


def _say(sight: LinkSight, words: str, word: _Word) -> None:
    expected = word.good and not word.was_missed
    often = f" ({word.changes} changes since the last line)" if word.changes > _LINES else ""
    log.log(logging.INFO if expected else logging.WARNING, "link %s: %s%s", sight.link, words, often)
