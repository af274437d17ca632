"""The backlog as those see it who do the work: instances of models, and the pool that decodes ahead of them.

Invariants: at most one decoded frame waits per detector instance; work that expired is never started. What becomes
of a frame that ends here is handed to the hall's `ended`, outside of its lock.
"""

from collections.abc import Callable
from dataclasses import dataclass

from cloud.hall import Hall
from cloud.jobs import EXPIRED, STOPPED, Failed, Job, Outcome, Stage
from cloud.lane import ModelLane
from cloud.waiting_room import Seat, WaitingRoom
from pipelines.frame import Picture

Found = tuple[list[Job], Job | None]

QUICK_US = 300
"""Of decoding and detection together, in the median: what it costs to have another thread woken, and some more."""


class EngineBrokeError(Exception):
    """The engine of this instance broke while somebody else worked with it."""


@dataclass(frozen=True, slots=True)
class Lead:
    """A frame that the thread which brought it may run, in the place of the instance that sleeps in `seat`. `quick`: it is
    sooner done than another thread is woken."""

    job: Job
    seat: Seat
    quick: bool


class Workshop:
    """Thread-safe."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall

    def ready(self, model: str, *, change: int, service_us: int | None = None) -> None:
        """An instance became usable (+1) or broke (−1); warm-up runs may seed the service time."""
        with self._hall.lock:
            lane = self._hall.lanes[model]
            lane.ready += change
            if service_us is not None:
                lane.observe(service_us)
            self._hall.call(lane)

    def take(self, model: str, instance: int) -> Job | None:
        """Wait for the most urgent frame whose time is not over; None once stopped.

        One without a picture is still to be decoded by the caller, who then asks `begin`.
        """
        lane = self._hall.lanes[model]
        return self._wait(lane.idle, lambda: self._next_for_instance(lane, instance), instance)

    def lead(self, lane: ModelLane, now_us: int) -> Lead | None:
        """The one frame that waits, for the thread that brought it, if an instance is free; else None. Called under the
        hall's lock: no thread need be woken for it."""
        alone = len(lane.queue) == 1 and not lane.decoded and not lane.ahead
        seat = lane.idle.lend() if alone else None
        if seat is None:
            return None
        expired, job = self._next_for_instance(lane, seat.who, now_us)
        if job is None:
            raise RuntimeError(f"{len(expired)} frames expired before they came")
        return Lead(job, seat, quick=0 < lane.p50_us < QUICK_US)

    def led(self, model: str, seat: Seat, *, broke: bool) -> None:
        """What was led is over and its instance is itself again, for what waits by now; called if its engine broke."""
        hall = self._hall
        with hall.lock:
            lane = hall.lanes[model]
            if broke or hall.stopped:
                seat.mend = broke
                seat.call()
            else:
                lane.idle.take_back(seat)
                hall.call(lane)

    def begin(self, job: Job, instance: int, picture: Picture | Failed, decode_us: int) -> bool:
        """The instance that took it has decoded it: whether it is to be run, now."""
        hall = self._hall
        with hall.lock:
            now_us = hall.clock_us()
            failed = self._put_picture(job, picture, decode_us, now_us)
            if job.stage is not Stage.GONE and failed is None:
                self._start(job, now_us)
                return True
            hall.lanes[job.model].working.pop(instance, None)
            ends = self._end(job)
            hall.ease()
        if ends:
            hall.ended(job, failed or EXPIRED)
        return False

    def next_to_decode(self) -> Job | None:
        """Wait for the most urgent frame of a model whose instances all work; None once stopped."""
        return self._wait(self._hall.decoders, self._next_for_pool)

    def decoded(self, job: Job, picture: Picture | Failed, decode_us: int) -> None:
        """The picture decoded ahead, or why there is none."""
        hall, ends = self._hall, False
        with hall.lock:
            lane = hall.lanes[job.model]
            lane.ahead -= 1
            failed = self._put_picture(job, picture, decode_us, hall.clock_us())
            if failed is not None:
                ends = self._end(job)
            elif job.stage is not Stage.GONE:
                job.stage = Stage.DECODED
                lane.decoded.append(job)
            hall.call(lane)
            hall.ease()
        if ends and failed is not None:
            hall.ended(job, failed)

    def detected(self, job: Job, instance: int, outcome: Outcome, *, detect_us: int | None) -> None:
        """The run is over; `detect_us` None keeps it out of the service times."""
        hall = self._hall
        with hall.lock:
            lane = hall.lanes[job.model]
            lane.working.pop(instance, None)
            if detect_us is not None:
                lane.observe(job.decode_us + detect_us)
            hall.end(job)
            hall.handing_over += 1
        try:
            hall.ended(job, outcome)
        finally:
            with hall.lock:
                hall.handing_over -= 1
                hall.ease()

    def abandoned(self, job: Job, instance: int, failed: Failed) -> None:
        """The instance that took it failed on it in a way nobody foresaw: if it has not ended yet, it ends here."""
        hall = self._hall
        with hall.lock:
            hall.lanes[job.model].working.pop(instance, None)
            ends = self._end(job)
            hall.ease()
        if ends:
            hall.ended(job, failed)

    def _wait(self, room: WaitingRoom, look: Callable[[], Found], who: int = 0) -> Job | None:
        """The job `look` finds, under the lock; until there is one the thread waits in `room`."""
        hall = self._hall
        while True:
            seat = None
            with hall.lock:
                if hall.stopped:
                    return None
                expired, job = look()
                for late in expired:
                    hall.end(late)
                if job is None and not expired:
                    seat = room.enter(who)
            for late in expired:
                hall.ended(late, EXPIRED)
            if job is not None:
                return job
            if seat is not None:
                seat.acquire()
                if seat.mend:
                    raise EngineBrokeError

    def _next_for_instance(self, lane: ModelLane, instance: int, now_us: int | None = None) -> Found:
        if now_us is None:
            now_us = self._hall.clock_us()
        expired, job = lane.take(now_us)
        if job is not None:
            lane.working[instance] = job
            job.begun_us = now_us - job.decode_us
            if job.picture is None:
                job.stage = Stage.DECODING
            else:
                self._start(job, now_us)
            self._hall.call(lane)
        return expired, job

    def _next_for_pool(self) -> Found:
        for lane in self._hall.lanes.values():
            if lane.wants_decoded:
                expired, job = lane.queue.pop(self._hall.clock_us())
                if job is not None:
                    job.stage = Stage.DECODING
                    lane.ahead += 1
                return expired, job
        return [], None

    def _put_picture(self, job: Job, picture: Picture | Failed, decode_us: int, now_us: int) -> Failed | None:
        """Why the job has to end now that it is decoded; None if it may be run, or is over already."""
        if not job.keep_body:
            job.body = b""
        if isinstance(picture, Failed):
            return picture
        if job.stage is not Stage.GONE:
            job.picture, job.decode_us, job.decoded_us = picture, decode_us, now_us
        if self._hall.stopped:
            return STOPPED
        return EXPIRED if job.expiry_us <= now_us else None

    def _start(self, job: Job, now_us: int) -> None:
        job.stage, job.started_us = Stage.RUNNING, now_us
        self._hall.ledger.started(job)

    def _end(self, job: Job) -> bool:
        """End it; False if it was over already, and nobody is to be told again."""
        ends = job.stage is not Stage.GONE
        self._hall.end(job)
        return ends
