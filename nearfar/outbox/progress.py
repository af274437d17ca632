"""What a drain says of itself on stderr, about once a second and at its end."""

import sys
import time

from edge.outbox.stats import OutboxStats

TOLD_EVERY_S = 1.0


class Progress:
    """Since the first numbers it heard."""

    def __init__(self) -> None:
        self._first: tuple[int, int] | None = None
        self._told_s = time.monotonic()

    def heard(self, stats: OutboxStats) -> None:
        self._first = self._first or (stats.acked, stats.payloads_acked)
        if time.monotonic() - self._told_s >= TOLD_EVERY_S:
            self._told_s = time.monotonic()
            self._tell(stats)

    def end(self, stats: OutboxStats, said: str = "") -> None:
        """`said`: what the worker refused last with."""
        self._tell(stats)
        if said and not stats.empty:
            print(f"the worker said: {said}", file=sys.stderr, flush=True)
        if stats.unread_words:
            print(f"this worker reads nothing: {stats.unread_words}", file=sys.stderr, flush=True)
        if stats.refused:
            words = "records are set aside, a worker cannot read them; `nearfar outbox ls` says why"
            print(f"{stats.refused} {words}", file=sys.stderr, flush=True)
        if stats.empty and stats.payloads_pending:
            words = "pictures stay: this worker takes none that large, or none at all (store.payloads)"
            print(f"{stats.payloads_pending} {words}", file=sys.stderr, flush=True)

    def _tell(self, stats: OutboxStats) -> None:
        records, payloads = self._first or (stats.acked, stats.payloads_acked)
        words = f"{stats.acked - records} records up, {stats.pending} to go, {stats.gaps_pending} gaps to go"
        if stats.payloads_committed:
            words += f", {stats.payloads_acked - payloads} pictures up, {stats.payloads_pending} to go"
        print(words, file=sys.stderr, flush=True)
