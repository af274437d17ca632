"""What a receiver will never take, said so that a log can be read: each reason once, with words, then how many by now.

A receiver that refuses every answer would else write a line for each of them.
"""

import logging
from dataclasses import dataclass

from edge.sinks.delivery.courier import NeverError

log = logging.getLogger(__name__)

_GROWS = 10
"""The count is said again when it has grown by so much, and at the end."""


@dataclass(slots=True)
class _Reason:
    count: int = 0
    said: int = 0


class Refusals:
    """Of the sink called `name`; used by one thread."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._reasons: dict[str, _Reason] = {}

    def add(self, answer_id: str, error: NeverError) -> None:
        reason = self._reasons.setdefault(error.reason, _Reason())
        reason.count += 1
        if reason.count == 1:
            log.warning("sink %s: %s is given up: %s", self._name, answer_id, error)
            reason.said = 1
        elif reason.count >= reason.said * _GROWS:
            self._say(reason, f"the last was {answer_id}: {error}")

    def end(self) -> None:
        """Nothing more comes for now: say what has not been said."""
        for word, reason in self._reasons.items():
            if reason.count > reason.said:
                self._say(reason, word)

    def _say(self, reason: _Reason, words: str) -> None:
        reason.said = reason.count
        log.warning("sink %s: %d answers are given up by now: %s", self._name, reason.count, words)
