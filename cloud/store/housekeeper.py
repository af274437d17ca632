"""What keeps the record store within its bounds, on a thread of its own: retention, the payload quota, tidying.

Each turn is short and does a bounded part, a larger one while that costs little; while there is more to do, turns follow
each other closely, and between them whoever commits goes first. However much there is to prune, the quota gets its turn.
Trouble is told once and tried again; it never stops the worker.
"""

import logging
import threading
from collections.abc import Callable

from cloud.store.payloads.folder import SHARDS
from cloud.store.payloads.part_folder import PartFolder
from cloud.store.payloads.store import Payloads
from cloud.store.retention import AT_MOST, Calendar, Retention
from pipelines.errors import Fatal, Retryable

log = logging.getLogger(__name__)

_REST_S = 30.0
_BREATH_S = 0.1
_PART_LEFT_S = 24 * 3600.0
_LEAST_BREATH_S = 0.01
_CHEAP_US, _DEAR_US = 20_000, 60_000
_MOST = 16 * AT_MOST
_PICTURES_EVERY = 8  # turns, while there is more to prune


class Housekeeper:
    """`keep_us` None: records are kept for ever. `turn` is what the thread does again and again."""

    def __init__(
        self,
        *,
        retention: Retention,
        payloads: Payloads | None,
        keep_us: int | None,
        clock_us: Callable[[], int],
        unix_us: Callable[[], int],
        parts: PartFolder | None = None,
    ) -> None:
        self._retention = retention
        self._payloads = payloads
        self._parts = parts
        self._keep_us = keep_us
        self._clock_us = clock_us
        self._unix_us = unix_us
        self._calendar: Calendar | None = None
        self._at_most = AT_MOST
        self._turns = 0
        self._shard = 0
        self._stopping = threading.Event()
        self._trouble = ""
        self._disbelieved = False
        self.pruned_records = 0
        self.pruned_gaps = 0
        self.thread = threading.Thread(target=self._run, name="nearfar-housekeeper", daemon=True)

    def start(self) -> None:
        self.thread.start()

    def halt(self) -> None:
        """No turn after the present one."""
        self._stopping.set()

    def turn(self) -> bool:
        """One bounded step of each duty; True if there is more to do at once. Raises Retryable."""
        more = False
        self._turns += 1
        if self._keep_us is not None:
            more |= self._prune(self._keep_us)
        if self._payloads is not None and (not more or self._turns % _PICTURES_EVERY == 0):
            more |= self._payloads.trim()
            self._payloads.tidy(SHARDS[self._shard], now_unix_s=self._unix_us() / 1e6)
            self._shard = (self._shard + 1) % len(SHARDS)
        if self._parts is not None:
            self._parts.clear_untouched_since(self._unix_us() / 1e6 - _PART_LEFT_S)
        return more

    def _prune(self, keep_us: int) -> bool:
        if self._calendar is None:
            self._calendar = Calendar(self._retention.newest_unix_us())
        today_us = self._calendar.today_us(unix_us=self._unix_us(), mono_us=self._clock_us())
        if today_us is None:
            if not self._disbelieved:
                log.warning(
                    "the clock jumped ahead, or is far ahead of the newest record: nothing is pruned for a day"
                )
            self._disbelieved = True
            return False
        self._disbelieved = False
        begun_us = self._clock_us()
        pruned = self._retention.prune(today_us - keep_us, at_most=self._at_most)
        took_us = self._clock_us() - begun_us
        if took_us > _DEAR_US:
            self._at_most = max(AT_MOST, self._at_most // 2)
        elif took_us < _CHEAP_US and pruned.more:
            self._at_most = min(_MOST, 2 * self._at_most)
        self.pruned_records += pruned.records
        self.pruned_gaps += pruned.gaps
        return pruned.more

    def _run(self) -> None:
        rest_s = _BREATH_S
        while not self._stopping.wait(rest_s):
            begun_us = self._clock_us()
            try:
                more = self.turn()
                took_s = (self._clock_us() - begun_us) / 1e6
                # As long as it took: whoever commits has the store half of the time, and pruning keeps up with ingest.
                rest_s = min(max(took_s, _LEAST_BREATH_S), _BREATH_S) if more else _REST_S
                self._trouble = ""
            except (Retryable, Fatal) as error:
                if not self._trouble:
                    log.warning("the record store is not tidied for now: %s", error)
                self._trouble = str(error)
                rest_s = _REST_S
            except Exception:
                log.exception("tidying the record store failed; it is tried again")
                rest_s = _REST_S
