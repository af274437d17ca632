"""Carrying the last answer forward to a frame nobody answers: whether it can be, and until when it has to begin.

An answer that is too old is never carried. A tracked answer takes time to be made and to be committed: it is begun that
long before it is given, and a frame that could have it waits for nobody beyond that.
"""

from collections.abc import Mapping

from edge.scheduling.job import NONE, Job
from edge.scheduling.key import Key
from edge.scheduling.near.estimate import NearEstimate
from edge.scheduling.settings import Tracking
from edge.scheduling.stream import Stream
from edge.scheduling.wake_up import WakeUp


class Carrying:
    """`tracking` None = no tracker: then no frame is `trackable`, and none waits any less for it."""

    def __init__(self, tracking: Tracking | None, wake_up: WakeUp, streams: Mapping[str, Stream]) -> None:
        self._tracking = tracking
        self._wake_up = wake_up
        self._streams = streams
        self._estimate = None if tracking is None else NearEstimate(tracking.guard_us)

    @property
    def exists(self) -> bool:
        return self._tracking is not None

    @property
    def guard_us(self) -> int:
        """The time to make a tracked answer; 0 without a tracker."""
        return 0 if self._estimate is None else self._estimate.guard_us

    def observe(self, took_us: int) -> None:
        """A tracked answer took so long to be made."""
        if self._estimate is not None:
            self._estimate.observe(took_us)

    def trackable(self, key: Key) -> bool:
        """Whether there is an answer young enough to be carried forward to this frame."""
        if self._tracking is None:
            return False
        behind = self._streams[key[0]].behind(key[1])
        return behind is not None and behind <= self._tracking.max_age

    def accuracy(self, key: Key) -> float:
        """Of what would be carried forward to this frame; 0 if nothing can be."""
        return self._tracking.accuracy if self._tracking is not None and self.trackable(key) else 0.0

    def patience_us(self, key: Key, answer_by_us: int) -> int:
        """Until when a frame that nobody can take yet may wait for somebody; a tracked answer takes time to make."""
        if not self.trackable(key):
            return answer_by_us
        return answer_by_us - self._wake_up.commit_us - self.guard_us

    def give_up_us(self, job: Job) -> int:
        """When nobody is waited for any more. A tracked answer needs time to be committed; a near run that is on
        gets all there is."""
        if job.near is not NONE or not self.trackable(job.key):
            return job.give_up_us
        return job.answer_by_us - self._wake_up.commit_us

    def begins(self, job: Job, now_us: int) -> bool:
        """Whether there is just time for the last answer to be carried forward to this frame."""
        return now_us >= self._track_us(job) and self.trackable(job.key)

    def due_us(self, job: Job) -> int:
        """When something has to be done about an unanswered frame: begin to carry forward, or give up."""
        if job.tracked or not self.trackable(job.key):
            return self.give_up_us(job)
        return self._track_us(job)

    def _track_us(self, job: Job) -> int:
        """When the last answer has to be carried forward at the latest, so that it is there when it is given."""
        return job.answer_by_us - self._wake_up.commit_us - self.guard_us
