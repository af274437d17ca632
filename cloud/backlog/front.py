"""Every admitted frame between its head and its end, as those see it who bring frames and who wait for them to end.

Methods decide under one lock, wake the one thread that can go on, and send nothing: what must be said to an agent is
returned, or handed to `ended`. `work` is the side of those who decode and detect.
"""

from collections.abc import Callable, Mapping

from cloud.backlog.hall import Ended, Hall
from cloud.backlog.jobs import DISPLACED, EXPIRED, Failed, Job, Stage
from cloud.backlog.lane import ModelLane
from cloud.backlog.lead import Lead
from cloud.backlog.ledger import Ledger
from cloud.backlog.workshop import Workshop
from cloud.scheduling.admission import Refusal
from pipelines.result import Load
from protos.wire.live import Buffer
from protos.wire.session import RejectReason

MOST_GIVING_WAY_S = 1.0
"""Well below the time after which an agent gives an ack up and sends again."""


class Backlog:
    """`lanes`: a model's name → its frames. Thread-safe."""

    def __init__(
        self, lanes: dict[str, ModelLane], *, ledger: Ledger, clock_us: Callable[[], int], ended: Ended
    ) -> None:
        self._hall = Hall(lanes, ledger=ledger, clock_us=clock_us, ended=ended)
        self._ledger = ledger
        self.work = Workshop(self._hall)

    def admit(self, job: Job) -> Refusal | None:
        """Take the job in, awaiting its body; or why not. A full queue is shared, too: an agent that has more frames in it
        gives the place of its least urgent one."""
        hall, lane = self._hall, self._hall.lanes[job.model]
        displaced = None
        with hall.lock:
            refusal = self._ledger.admit(job, lane, draining=hall.draining)
            if refusal is not None and refusal.reason is RejectReason.QUEUE_FULL:
                displaced = lane.queue.displaced_by(job.id.agent)
                if displaced is not None and self._ledger.fits_instead_of(displaced, job):
                    hall.end(displaced)
                    refusal = self._ledger.admit(job, lane, draining=hall.draining)
                else:
                    displaced = None
            if refusal is None:
                hall.alarm.expires(job.expiry_us)
        if displaced is not None:
            hall.ended(displaced, DISPLACED)
        return refusal

    def body(
        self, job: Job, data: Buffer, arrived_us: int, *, may_lead: bool = False
    ) -> Failed | Lead | None:
        """The body of an admitted head: why the job ended, if it did. `may_lead`: the caller would run a frame that
        nothing is before, and is given it if so."""
        with self._hall.lock:
            if job.stage is not Stage.AWAITING_BODY:
                return None
            job.body, job.body_us = data, arrived_us
            if len(data) != job.size_bytes:
                self._hall.end(job)
                return Failed(
                    RejectReason.BAD_PAYLOAD, f"the head promised {job.size_bytes} bytes, {len(data)} came"
                )
            if job.expiry_us <= arrived_us:
                self._hall.end(job)
                return EXPIRED
            del self._ledger.awaiting[id(job)]
            lane = self._hall.lanes[job.model]
            lead = self.work.lead(lane, job, arrived_us) if may_lead else None
            if lead is None:
                job.stage = Stage.QUEUED
                lane.put(job, arrived_us)
                self._hall.call(lane)
            return lead

    def cancel(self, job: Job) -> bool:
        """End it if its run has not started; a started run finishes and is sent."""
        with self._hall.lock:
            if job.stage in (Stage.RUNNING, Stage.GONE):
                return False
            self._hall.end(job)
            self._hall.call(self._hall.lanes[job.model])
            return True

    def sweep(self, now_us: int) -> list[Job]:
        """End what expired while waiting for its body, in the queue, or decoded ahead."""
        with self._hall.lock:
            late = [j for j in self._ledger.awaiting.values() if j.expiry_us <= now_us]
            for lane in self._hall.lanes.values():
                late += lane.queue.expired(now_us)
                late += [job for job in lane.decoded if job.expiry_us <= now_us]
            for job in late:
                self._hall.end(job)
            for lane in self._hall.lanes.values():
                self._hall.call(lane)
            return late

    def may_sleep_us(self, now_us: int, most_us: int) -> int:
        """For how long there is nothing to sweep, `most_us` at most; then `sleep`."""
        hall = self._hall
        with hall.lock:
            ends = [job.expiry_us for job in self._ledger.awaiting.values()]
            for lane in hall.lanes.values():
                ends += [job.expiry_us for job in lane.decoded]
                if (soonest_us := lane.queue.soonest_us()) is not None:
                    ends.append(soonest_us)
            return hall.alarm.set(now_us, soonest_us=min(ends, default=None), most_us=most_us)

    def sleep(self, sleep_us: int) -> None:
        """So long, or until a frame comes that ends sooner, or the backlog is stopped."""
        self._hall.alarm.wait(sleep_us)

    def reset_credit(self, agent: str) -> None:
        """The agent said Hello: its window starts afresh."""
        with self._hall.lock:
            self._ledger.credit.reset(agent)

    def close_credit(self, agent: str) -> None:
        """The agent has no live connection left: its share of the windows is for the others."""
        with self._hall.lock:
            self._ledger.credit.close(agent)

    @property
    def sharers(self) -> int:
        """Agents the windows are shared among."""
        return len(self._ledger.credit)

    @property
    def lanes(self) -> Mapping[str, ModelLane]:
        """Model → its frames, to be looked at and left as they are."""
        return self._hall.lanes

    def window_frames(self) -> int:
        """What an agent may have in flight, of the model with the longest queue."""
        with self._hall.lock:
            return self._ledger.credit.window()

    def models_not_ready(self) -> list[str]:
        with self._hall.lock:
            return [name for name, lane in self._hall.lanes.items() if not lane.ready]

    def load(self, model: str, now_us: int, *, told: str = "") -> Load:
        """What a new frame with all the time in the world would meet, of the agent it is `told` to; with its window."""
        with self._hall.lock:
            lane = self._hall.lanes[model]
            rests = lane.at_rest and lane.ready > 0
            window_frames = self._ledger.credit.tell(
                told,
                model,
                queue_us=0 if rests else lane.behind_all_us(now_us),
                service_us=lane.frames.p50_us,
                now_us=now_us,
            )
            return Load(
                queue_frames=self._ledger.frames,
                queue_us=0 if rests else lane.forecast_us(told, None, now_us),
                service_p50_us=lane.frames.p50_us,
                service_p95_us=lane.frames.p95_us,
                window_frames=window_frames,
            )

    def waiting(self) -> tuple[int, int]:
        """`(frames, bytes)` admitted and not running."""
        with self._hall.lock:
            return self._ledger.frames, self._ledger.size_bytes

    def oldest_us(self, now_us: int) -> int:
        """Age of the oldest frame that is admitted and not begun, since its head came; 0 when there is none."""
        with self._hall.lock:
            return max((now_us - job.head_us for job in self._hall.not_begun()), default=0)

    def drain(self, timeout_us: int) -> bool:
        """Admit nothing more and wait until nothing is in work; False if the time was not enough."""
        with self._hall.lock:
            self._hall.draining = True
            self._hall.calmer.notify_all()
            return self._hall.calmer.wait_for(self._hall.empty, timeout_us / 1e6)

    def give_way(self) -> None:
        """Return once no frame waits for a model, or after `MOST_GIVING_WAY_S`: for work that has time."""
        hall = self._hall
        with hall.lock:
            hall.giving_way += 1
            hall.calmer.wait_for(lambda: hall.draining or hall.quiet, MOST_GIVING_WAY_S)
            hall.giving_way -= 1

    @property
    def giving_way(self) -> int:
        """Threads that do."""
        return self._hall.giving_way

    def stop(self) -> list[Job]:
        """Let every waiting thread return; the jobs that never ran."""
        hall = self._hall
        with hall.lock:
            hall.draining = hall.stopped = True
            hall.alarm.ring()
            hall.calmer.notify_all()
            left = hall.not_begun()
            for job in left:
                hall.end(job)
            hall.decoders.call_all()
            for lane in hall.lanes.values():
                lane.idle.call_all()
            return left

    @property
    def admitted(self) -> int:
        """Heads let in since the start."""
        return self._ledger.admitted

    @property
    def draining(self) -> bool:
        return self._hall.draining
