"""Keeps what is used of each link's data budget over restarts, so that none of them fills a budget.

One small file, replaced whole by a thread of its own: at most every EVERY_US, only after at least a SHARE of a budget
was used since (or every REFILLED_US, for what was refilled), and at the end. Time without an agent refills nothing,
so no wall clock is trusted. A file that is missing or unreadable is said and counts as nothing used; a disk that
takes nothing is said once and tried again.
"""

import json
import logging
import threading
from collections.abc import Mapping
from pathlib import Path

from edge.scheduling.far.data_budget import DataBudget
from pipelines.whole_file import write_whole

log = logging.getLogger(__name__)

EVERY_US = 10_000_000
REFILLED_US = 600_000_000
SHARE = 100
"""One hundredth of what the budget holds is at stake when the power fails."""
_END_WITHIN_S = 0.3

Used = dict[str, dict[int, int]]


class BudgetBook:
    """Of the limited ones of `budgets`, by link; without any it does nothing. All but `close` is the dispatcher's."""

    def __init__(self, path: Path, budgets: Mapping[str, DataBudget], *, now_us: int) -> None:
        self._path = path
        self._budgets = {link: budget for link, budget in budgets.items() if budget.used_bytes(now_us)}
        kept = _read(path) if self._budgets else {}
        for link, budget in self._budgets.items():
            budget.resume(kept.get(link, {}), now_us)
        self._written = {link: budget.spent_bytes for link, budget in self._budgets.items()}
        self._next_us = self._written_us = now_us
        self._changed = threading.Condition()
        self._newest: Used | None = None  # to be written
        self._ending = False
        self._error = ""
        self._thread: threading.Thread | None = None

    def look(self, now_us: int) -> None:
        """Time has passed; returns at once."""
        if now_us < self._next_us or not any(self._worth_it(link, now_us) for link in self._budgets):
            return
        self._next_us = now_us + EVERY_US
        self._hand_over(now_us)

    def close(self, sent_bytes: Mapping[str, int], now_us: int) -> None:
        """Nothing is sent any more; `sent_bytes` went over each link in all. Keep the last word."""
        for link, budget in self._budgets.items():
            budget.spend(max(0, sent_bytes.get(link, 0) - budget.spent_bytes), now_us)
        if self._budgets:
            self._hand_over(now_us)
        with self._changed:
            self._ending = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(_END_WITHIN_S)

    def _worth_it(self, link: str, now_us: int) -> bool:
        budget = self._budgets[link]
        if now_us - self._written_us >= REFILLED_US and any(budget.used_bytes(now_us).values()):
            return True
        return (budget.spent_bytes - self._written[link]) * SHARE >= budget.smallest_bytes

    def _hand_over(self, now_us: int) -> None:
        self._written_us = now_us
        used = {link: budget.used_bytes(now_us) for link, budget in self._budgets.items()}
        self._written = {link: budget.spent_bytes for link, budget in self._budgets.items()}
        with self._changed:
            self._newest = used
            self._changed.notify()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="budget-book", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._newest is not None or self._ending)
                used, self._newest = self._newest, None
            if used is None:
                return
            try:
                text = json.dumps({"used_bytes": used})
                write_whole(self._path, text.encode(), draft=self._path.with_suffix(".new"))
                self._error = ""
            except OSError as error:
                words = error.strerror or str(error)
                if words != self._error:
                    self._error = words
                    log.warning(
                        "what is used of data budgets cannot be kept in %s: %s; a restart forgets it",
                        self._path,
                        words,
                    )


def _read(path: Path) -> Used:
    try:
        said = json.loads(path.read_text())["used_bytes"]
        return {
            str(link): {int(span_us): int(size) for span_us, size in spans.items()}
            for link, spans in said.items()
        }
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        log.warning(
            "what was used of data budgets cannot be read from %s, so they begin full: %s", path, error
        )
        return {}
