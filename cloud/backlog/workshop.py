"""The backlog as those see it who do the work: instances of models, and the pool that decodes ahead of them.

Invariants: at most the frames of one run wait decoded per detector instance; work that expired is never started. What becomes
of a frame that ends here is handed to the hall's `ended`, outside of its lock.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from cloud.backlog.hall import Hall
from cloud.backlog.jobs import EXPIRED, STOPPED, Failed, Job, Outcome, Stage
from cloud.backlog.lane import ModelLane
from cloud.backlog.lead import QUICK_US, DetectorBrokenError, Lead
from cloud.backlog.waiting_room import Seat, WaitingRoom
from pipelines.frame import Picture
from protos.wire.session import RejectReason

Found = tuple[list[Job], list[Job], int | None]
Decoded = tuple[Job, Picture | Failed, int]
"""A job, its picture or why there is none, and the µs that took."""
BROKE = Failed(RejectReason.NO_MODEL, "the model broke, and would be loaded again too late for it")


class Workshop:
    """Thread-safe."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall

    def ready(self, model: str, *, change: int, seen: Sequence[tuple[int, int]] = ()) -> None:
        """An instance became usable (+1); warm-up runs, `(frames, µs)`, may seed the costs."""
        with self._hall.lock:
            lane = self._hall.lanes[model]
            lane.ready += change
            for size, run_us in seen:
                lane.seen(size, run_us)
                if size == 1:
                    lane.frames.add(run_us)
            self._hall.call(lane)

    def broke(self, model: str, *, back_us: int) -> None:
        """An instance broke; built anew it took `back_us` last time. If it was the last, what waits and has no time for that
        ends now: its agent can still answer it near."""
        hall = self._hall
        with hall.lock:
            lane = hall.lanes[model]
            lane.ready -= 1
            until_us = hall.clock_us() + back_us
            waiting = [] if lane.ready else [job for job in hall.not_begun() if job.model == model]
            lost = [job for job in waiting if job.expiry_us < until_us]
            for job in lost:
                hall.end(job)
        for job in lost:
            hall.ended(job, BROKE)

    def take(self, model: str, instance: int) -> list[Job]:
        """Wait for the frames of the next run, each the next in its agent's turn, their time not over; empty once stopped.

        Those without a picture are still to be decoded by the caller, who then asks `begin`. DetectorBrokenError: while
        somebody else worked in its place.
        """
        lane = self._hall.lanes[model]
        return self._wait(lane.idle, lambda: self._next_for_instance(lane, instance), instance)

    def lead(self, lane: ModelLane, job: Job, now_us: int) -> Lead | None:
        """`job`, whose body has just come, for the thread that brought it, if nothing is before it and an instance is
        free; else None. Called under the hall's lock, the frame's time not over. It never enters the queue, whose
        accounts an empty one closes anyway, and no thread need be woken for it."""
        if not lane.may_be_led or lane.waiting:
            return None
        seat = lane.idle.lend()
        if seat is None:
            return None
        job.stage = Stage.DECODING
        lane.give(job, seat.who, now_us)
        if self._hall.giving_way:
            self._hall.ease()
        return Lead(job, seat, quick=0 < lane.frames.p50_us < QUICK_US)

    def led(self, model: str, seat: Seat, *, broke: bool) -> None:
        """What was led is over and its instance is itself again, for what waits by now; called if its detector broke."""
        hall = self._hall
        with hall.lock:
            lane = hall.lanes[model]
            if broke or hall.stopped:
                seat.mend = broke
                seat.call()
            else:
                lane.idle.take_back(seat)
                hall.call(lane)

    def begin(self, jobs: Sequence[Job], instance: int, decoded: Sequence[Decoded]) -> list[Job]:
        """The instance that took `jobs` has decoded those that were not: the ones to be run, now."""
        hall = self._hall
        run: list[Job] = []
        ends: list[tuple[Job, Outcome]] = []
        bodies = [job.body for job, *_ in decoded]  # to let go of a large one takes time: after the lock
        with hall.lock:
            now_us = hall.clock_us()
            for job, picture, decode_us in decoded:
                failed = self._put_picture(job, picture, decode_us)
                if failed is not None and self._end(job):
                    ends.append((job, failed))
            for job in jobs:
                if job.stage is Stage.GONE:
                    continue
                late = self._too_late(job, now_us)
                if late is None:
                    self._start(job, now_us)
                    run.append(job)
                elif self._end(job):
                    ends.append((job, late))
            lane = hall.lanes[jobs[0].model]
            if run:
                lane.taken[instance] = run
            else:
                self._free(lane, instance)
            hall.ease()
        del bodies
        if ends:
            self._hand_on(ends)
        return run

    def next_to_decode(self) -> Job | None:
        """Wait for the next frame of a model whose instances all work; None once stopped."""
        found = self._wait(self._hall.decoders, self._next_for_pool)
        return found[0] if found else None

    def decoded(self, job: Job, picture: Picture | Failed, decode_us: int) -> None:
        """The picture decoded ahead, or why there is none."""
        hall, ends, body = self._hall, False, job.body
        with hall.lock:
            lane = hall.lanes[job.model]
            lane.ahead -= 1
            failed = self._put_picture(job, picture, decode_us) or self._too_late(job, hall.clock_us())
            if failed is not None:
                ends = self._end(job)
            elif job.stage is not Stage.GONE:
                job.stage = Stage.DECODED
                lane.decoded.append(job)
            hall.call(lane)
            hall.ease()
        del body
        if ends and failed is not None:
            hall.ended(job, failed)

    def detected(
        self, jobs: Sequence[Job], instance: int, outcomes: Sequence[Outcome], *, run_us: int, sound: bool
    ) -> None:
        """The run of `jobs` is over; one that was not `sound` teaches nothing about what runs cost."""
        hall = self._hall
        with hall.lock:
            lane = hall.lanes[jobs[0].model]
            self._free(lane, instance)
            if sound:
                lane.seen(len(jobs), run_us)
            for job in jobs:
                if sound:
                    lane.served(decode_us=job.decode_us, run_us=run_us)
                job.run_us = run_us // len(jobs)
                hall.end(job)
            hall.handing_over += 1
        try:
            if len(jobs) == 1:
                hall.ended(jobs[0], outcomes[0])
            else:
                self._hand_on(list(zip(jobs, outcomes, strict=True)))
        finally:
            with hall.lock:
                hall.handing_over -= 1
                hall.ease()

    def abandoned(self, jobs: Sequence[Job], instance: int, failed: Failed) -> None:
        """The instance that took them failed in a way nobody foresaw: those that have not ended yet end here."""
        hall = self._hall
        with hall.lock:
            self._free(hall.lanes[jobs[0].model], instance)
            ends = [job for job in jobs if self._end(job)]
            hall.ease()
        self._hand_on([(job, failed) for job in ends])

    def _hand_on(self, ended: Sequence[tuple[Job, Outcome]]) -> None:
        """Every one of them, even if handing on another one raises."""
        with ExitStack() as after:  # calls them last to first, and all of them
            for job, outcome in reversed(ended):
                after.callback(self._hall.ended, job, outcome)

    def _wait(self, room: WaitingRoom, look: Callable[[], Found], who: int = 0) -> list[Job]:
        """The jobs `look` finds, under the lock; until there are any the thread waits in `room`."""
        hall = self._hall
        while True:
            seat = again_us = None
            with hall.lock:
                if hall.stopped:
                    return []
                expired, jobs, again_us = look()
                for late in expired:
                    hall.end(late)
                if not jobs and not expired:
                    seat = room.enter(who)
            for late in expired:
                hall.ended(late, EXPIRED)
            if jobs:
                return jobs
            if seat is None:
                continue
            if again_us is None:
                seat.acquire()
            elif not seat.acquire(max(0, again_us - hall.clock_us()) / 1e6):
                with hall.lock:
                    room.leave(seat)
            if seat.mend:
                raise DetectorBrokenError

    def _next_for_instance(self, lane: ModelLane, instance: int) -> Found:
        now_us = self._hall.clock_us()
        expired, jobs, again_us = lane.take(now_us)
        if jobs:
            lane.taken[instance] = jobs
            to_decode = 0
            for job in jobs:
                if job.picture is None:
                    job.stage = Stage.DECODING
                    to_decode += 1
            lane.begin(instance, now_us, len(jobs), to_decode)
            if not to_decode:
                for job in jobs:
                    self._start(job, now_us)
            if lane.queue.length or lane.decoded:
                self._hall.call(lane)
            if self._hall.giving_way:
                self._hall.ease()
        elif again_us is not None:
            self._hall.call_decoder(lane)
        return expired, jobs, again_us

    def _next_for_pool(self) -> Found:
        for lane in self._hall.lanes.values():
            if lane.wants_decoded:
                expired, job = lane.take_next(self._hall.clock_us(), lane.batch.max)
                if job is None:
                    return expired, [], None
                job.stage = Stage.DECODING
                lane.ahead += 1
                self._hall.call_decoder(lane)
                return expired, [job], None
        return [], [], None

    def _put_picture(self, job: Job, picture: Picture | Failed, decode_us: int) -> Failed | None:
        """Why it has no picture now that it is decoded."""
        if not job.keep_body:
            job.body = b""
        if isinstance(picture, Failed):
            return picture
        if job.stage is not Stage.GONE:
            job.picture, job.decode_us, job.decoded_us = picture, decode_us, self._hall.clock_us()
        return None

    def _too_late(self, job: Job, now_us: int) -> Failed | None:
        """Why it is not to be run any more."""
        if self._hall.stopped:
            return STOPPED
        return EXPIRED if job.expiry_us <= now_us else None

    def _start(self, job: Job, now_us: int) -> None:
        job.stage, job.started_us = Stage.RUNNING, now_us
        self._hall.ledger.started(job)

    def _free(self, lane: ModelLane, instance: int) -> None:
        lane.taken.pop(instance, None)
        lane.end(instance)

    def _end(self, job: Job) -> bool:
        """End it; False if it was over already, and nobody is to be told again."""
        ends = job.stage is not Stage.GONE
        self._hall.end(job)
        return ends
