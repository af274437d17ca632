"""The tracker as the dispatcher sees it: what detectors say goes in, answers carried forward come out.

Owned by the dispatcher thread. Every far result is a base, a late one too; every near one until a far one of the same
frame comes.
"""

from dataclasses import replace

from edge.flow.pending import Pending
from edge.flow.track_runner import TrackRunner
from edge.near.names import NearNames
from edge.near.runner import NearRun
from edge.scheduling.key import Key
from edge.scheduling.settings import SchedulerSettings
from pipelines.frame import Frame
from pipelines.result import AnsweredBy, Status
from pipelines.trackers.base import Base
from protos.wire.live import Result

LOST = "nothing to carry forward"
NOT_DONE = "tracker not done in time"


class Tracking:
    def __init__(self, runner: TrackRunner, *, settings: SchedulerSettings, near: NearNames) -> None:
        self.runner = runner
        self._near = near
        self._near_worth = settings.near_accuracy or 0.0
        self._small_worth = 0.0 if settings.small_near is None else settings.small_near.accuracy
        self._far_worth = max(rung.accuracy for rung in settings.ladder)

    def accepted(self, frame: Frame, *, oldest: int) -> None:
        """A frame was taken; `oldest` is the first one of its stream that is not answered yet."""
        self.runner.see(frame, oldest=oldest)

    def near_said(self, run: NearRun) -> None:
        if run.detections is None:
            return
        base = Base(
            seq=run.key[1],
            detections=run.detections,
            worth=self._small_worth if run.small else self._near_worth,
            model=self._near.smaller if run.small else self._near.full,
            model_sha256=self._near.sha256,
        )
        self.runner.rebase(run.key[0], base)

    def far_said(self, key: Key, result: Result) -> None:
        """`key` may be of no stream, or of a frame that was answered long ago."""
        base = Base(
            seq=key[1],
            detections=result.detections,
            worth=self._far_worth,
            model=result.model,
            model_sha256=result.model_sha256,
        )
        self.runner.rebase(key[0], base)

    def carry(self, key: Key) -> None:
        self.runner.carry(key)


def give_honestly(pending: Pending) -> None:
    """A tracked answer that is none, because all was lost from sight or the tracker is not done, is missed."""
    give = pending.give
    if give is None or give.by is not AnsweredBy.TRACKED:
        return
    if pending.track is None or pending.track.carried is None:
        why = NOT_DONE if pending.track is None else LOST
        reason = f"{give.reason}; {why}" if give.reason else why
        pending.give = replace(give, by=AnsweredBy.MISSED, status=Status.TIMEOUT, reason=reason)
