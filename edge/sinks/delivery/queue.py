"""A sink whose receiver may be slow, busy or away: answers wait in a spool, a postman brings them.

Taking an answer costs a place in memory or one commit, never the network. An answer counts as written once the queue
has it; what became of it after that is in `sight`.
"""

from dataclasses import dataclass

from edge.sinks.delivery.postman import Postman, PostSight
from edge.sinks.delivery.spool import Spool, SpoolSight
from pipelines.result import Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSight:
    """A queue and its postman at one moment."""

    spool: SpoolSight
    post: PostSight
    durable: bool

    @property
    def words(self) -> str:
        """What a person should know of it now; empty when all is well."""
        said = []
        if self.post.failing:
            said.append(f"{self.post.failing}, for {self.post.failing_us / 1e6:.0f} s")
        if self.spool.disk_error:
            said.append(self.spool.disk_error)
        waits = [f"{self.spool.waiting} answers wait: {'; '.join(said)}"] if said else []
        return "; ".join([*waits, *self.losses])

    @property
    def losses(self) -> list[str]:
        """Damaged files of which nobody knows how many answers went with them, in words."""
        return [f"an unknown number of answers was lost with {name}" for name in self.spool.uncounted]


class QueueSink:
    """A `Sink`: `write`, `flush` and `close` are for one thread, the rest for any."""

    def __init__(self, *, spool: Spool, postman: Postman, durable: bool) -> None:
        self._spool = spool
        self._postman = postman
        self._durable = durable
        self._fresh: list[Answer] = []

    def start(self) -> None:
        """Bring what an earlier run left, and have a connection stand before the first answer."""
        self._postman.wake()

    def write(self, answer: Answer) -> None:
        self._fresh.append(answer)

    def flush(self) -> None:
        """One transaction for all that was written since the last."""
        if self._fresh:
            fresh, self._fresh = self._fresh, []
            self._spool.put(fresh)
            self._postman.wake()

    def close(self) -> None:
        """What the receiver does not take at once stays on disk, or is abandoned and counted. Again: nothing."""
        self.flush()
        self._postman.close()
        self._spool.close()

    @property
    def drained(self) -> bool:
        """Whether waiting longer brings nothing: the receiver has everything, or it is away and the disk keeps it."""
        return self._spool.empty or (self._durable and bool(self._postman.failing))

    def sight(self) -> QueueSight:
        return QueueSight(spool=self._spool.sight(), post=self._postman.sight(), durable=self._durable)

    def counts(self) -> dict[str, int]:
        sight = self.sight()
        spool = sight.spool
        return {
            "waiting": spool.waiting,
            "inherited": spool.inherited,
            "delivered": spool.delivered,
            "refused": sum(spool.refused.values()),
            "evicted": sum(spool.evicted.values()),
            "set_aside": spool.set_aside,
            "uncounted_files": len(spool.uncounted),
            "abandoned": spool.abandoned,
            "sheltered": spool.sheltered,
            "flash_bytes": spool.flash_bytes,
            "retries": sight.post.retries,
        }
