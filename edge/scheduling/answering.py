"""When a frame is given, by whom, and when its answer is released: the last steps of every job.

Sans-IO. A job is given exactly once, and dropped when neither near nor far can say anything more about it.
"""

from edge.scheduling.actions import Action, CancelFar, CancelNear, Give, Release
from edge.scheduling.job import Far, Job, Near
from edge.scheduling.near_timeline import Key
from edge.scheduling.near_way import NearWay
from edge.scheduling.wake_up import WakeUp
from pipelines.result import AnsweredBy, Status


class Answering:
    """Works on the scheduler's own `jobs` and adds what it decides to `out`."""

    def __init__(self, *, jobs: dict[Key, Job], near: NearWay, wake_up: WakeUp, out: list[Action]) -> None:
        self._jobs = jobs
        self._out = out
        self._near = near
        self._wake_up = wake_up

    def reserve(self, job: Job, now_us: int) -> bool:
        """A near slot that leaves time for the commit."""
        return self._near.reserve(
            job, latest_end_us=job.answer_by_us - self._wake_up.commit_us, now_us=now_us
        )

    def settle(self, job: Job, now_us: int) -> None:
        """Give what can be given by now."""
        if job.given:
            return
        if job.near is Near.HELD:
            hopeful = job.far_open and not job.abandoned
            if not hopeful or now_us >= job.answer_by_us - self._wake_up.commit_us:
                self.give(job, AnsweredBy.NEAR, Status.OK, job.far_reason, hold=True, now_us=now_us)
            return
        nobody = not job.far_open and job.near in (Near.NONE, Near.OVER)
        if nobody and job.near is Near.NONE and self.reserve(job, now_us):
            job.eager = True  # far ended without an answer and nothing was kept: near may still make it
        elif nobody or now_us >= job.give_up_us:
            self._miss(job, now_us)

    def _miss(self, job: Job, now_us: int) -> None:
        """Nobody can answer in time: said as it is."""
        if job.near is Near.RUNNING:
            self._out.append(CancelNear(job.key))
        if job.far is Far.SENT:
            self._out.append(CancelFar(job.key))
        status = job.near_status if job.near is Near.OVER else Status.TIMEOUT
        reason = job.far_reason or ("far not back in time" if job.far_open else "no time for near")
        self.give(job, AnsweredBy.MISSED, status, reason, hold=True, now_us=now_us)

    def give(self, job: Job, by: AnsweredBy, status: Status, reason: str, *, hold: bool, now_us: int) -> None:
        self._near.release(job)
        if job.near is not Near.RUNNING:
            job.near = Near.OVER
        job.given = True
        if hold:
            late = now_us >= job.answer_by_us
            commit_us = self._wake_up.commit_us
            job.release_by_us = max(job.deadline_us, now_us + commit_us) if late else job.answer_by_us
        self._out.append(Give(job.key, by, status, reason, hold))

    def release(self, job: Job, *, committed: bool) -> None:
        job.release_by_us = None
        self._out.append(Release(job.key, committed))
        self.drop_if_done(job)

    def drop_if_done(self, job: Job) -> None:
        """A given frame is kept only while near still runs it or far may still answer late."""
        done = job.given and job.release_by_us is None
        if done and job.near is not Near.RUNNING and not job.far_open:
            self._jobs.pop(job.key, None)
