"""What the threads of a worker share about its frames, and the moves that every side makes under its lock.

Invariants: a job is in one stage at a time and ends exactly once; its credit is given back when it ends. Methods are
called with `lock` held, decide, wake the one thread that can go on, and send nothing.
"""

import threading
from collections.abc import Callable

from cloud.backlog.alarm import Alarm
from cloud.backlog.jobs import Job, Outcome, Stage
from cloud.backlog.lane import ModelLane
from cloud.backlog.ledger import Ledger
from cloud.backlog.waiting_room import WaitingRoom

Ended = Callable[[Job, Outcome], None]


class Hall:
    """`lanes`: model → its frames. `ended` is told of a job that is over, without the lock. `handing_over` results are
    on their way to reply and record store."""

    def __init__(
        self, lanes: dict[str, ModelLane], *, ledger: Ledger, clock_us: Callable[[], int], ended: Ended
    ) -> None:
        self.lanes = lanes
        self.ledger = ledger
        self.clock_us = clock_us
        self.ended = ended
        self.lock = threading.Lock()
        self.calmer = threading.Condition(self.lock)
        self.decoders = WaitingRoom()
        self.alarm = Alarm()
        self.handing_over = 0
        self.giving_way = 0
        self.draining = False
        self.stopped = False

    def call(self, lane: ModelLane) -> None:
        """Wake the one thread that can go on with what waits in `lane`."""
        if lane.wants_instance:
            lane.idle.call_one()
        else:
            self.call_decoder(lane)

    def call_decoder(self, lane: ModelLane) -> None:
        if lane.wants_decoded:
            self.decoders.call_one()

    def ease(self) -> None:
        """Whoever drains, or gives way to frames that wait, looks again."""
        if self.draining or self.giving_way:
            self.calmer.notify_all()

    @property
    def quiet(self) -> bool:
        """Whether no frame waits for a model; those that run do not count."""
        return not any(lane.waiting for lane in self.lanes.values())

    def empty(self) -> bool:
        """Nothing in work, and every result handed to reply and record store: only then may they be flushed."""
        in_work = self.handing_over or self.ledger.awaiting
        return not in_work and not any(lane.busy for lane in self.lanes.values())

    def not_begun(self) -> list[Job]:
        waiting = (job for lane in self.lanes.values() for job in (*lane.queue, *lane.decoded))
        return [*self.ledger.awaiting.values(), *waiting]

    def end(self, job: Job) -> None:
        if job.stage is Stage.GONE:
            return
        self.ledger.ended(job)
        lane = self.lanes[job.model]
        if job.ticket is not None:
            lane.queue.remove(job.ticket)
            lane.queue.settle(job.ticket, job.decode_us + job.run_us)
        if job.stage is Stage.DECODED and job in lane.decoded:
            lane.decoded.remove(job)
        job.stage = Stage.GONE
        job.picture = None
        self.ease()
