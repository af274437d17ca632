"""The answer desk: turns what was decided into answers for the sinks, the run directory and the cloud."""

import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Protocol

from edge.flow.pending import Pending
from edge.flow.timing import far_timing, near_timing, tracked_timing
from edge.identity import Identity
from edge.near.names import NearNames
from edge.scheduling.scheduler import Scheduler
from pipelines.errors import Fatal
from pipelines.frame import Frame, FrameId, Picture
from pipelines.labels import LabelSpace
from pipelines.result import Answer, AnsweredBy, Detections, Record, ShedReason, Status
from protos.wire.session import ModelInfo, Welcome

log = logging.getLogger(__name__)

REMEMBERED = 4096


class AnswerSink(Protocol):
    def offer(self, answer: Answer) -> bool: ...


class OrderedSink(Protocol):
    """One that may wait for a frame's answer, so that it must hear when there will be none."""

    def skip(self, stream: str, seq: int) -> None: ...


class FrameLog(Protocol):
    """The run directory, as far as answers concern it."""

    def answered(self, answer: Answer, picture: Picture) -> None: ...
    def shed(self, frame: Frame, frame_id: FrameId, reason: ShedReason) -> None: ...
    def gated(self, frame: Frame, frame_id: FrameId, why: str) -> None: ...
    def late_far(self, frame_id: FrameId) -> None: ...
    def settled(self, frame_id: FrameId) -> None: ...


class AnswerDesk:
    """Owned by the dispatcher thread, but `shed` and `gated` may be called from any. `near` names the
    local model in answers; `far_chosen` is the far one, None until a worker
    has welcomed this agent. Detections come in the recipe's labels; `labels` is only asked what a far model can never
    report."""

    def __init__(
        self,
        *,
        identity: Identity,
        labels: LabelSpace | None,
        near_labels: Sequence[str],
        far_model: str,
        near: NearNames,
        sinks: Sequence[AnswerSink],
        frame_log: FrameLog | None,
        clock_us: Callable[[], int],
        in_order: Sequence[OrderedSink] = (),
    ) -> None:
        self._identity = identity
        self._labels = labels
        self._near_labels = near_labels
        self._checked_labels: set[tuple[str, ...]] = set()
        self._far_model = far_model
        self._near = near
        self._sinks = sinks
        self._frame_log = frame_log
        self._clock_us = clock_us
        self._in_order = in_order
        self.far_chosen: ModelInfo | None = None
        self._answered: OrderedDict[tuple[str, int], AnsweredBy] = OrderedDict()

    @property
    def near(self) -> tuple[str, str] | None:
        """Name and SHA-256 of the local model, None without one."""
        return (self._near.full, self._near.sha256) if self._near.full else None

    @property
    def near_smaller(self) -> str:
        """Name of the local model at its smaller input, empty without one."""
        return self._near.smaller

    def frame_id(self, stream: str, seq: int) -> FrameId:
        return FrameId(self._identity.agent, self._identity.run, stream, seq)

    def model_in(self, welcome: Welcome) -> ModelInfo:
        """The far model of this pipeline: the one asked for, else the first, which is the worker's choice."""
        for model in welcome.models:
            if not self._far_model or model.name == self._far_model:
                return model
        wanted = f"the model {self._far_model!r}" if self._far_model else "any model"
        offered = ", ".join(model.name for model in welcome.models) or "none"
        raise Fatal(f"the worker welcomed this agent without {wanted}; it offers {offered}: mend far.model")

    def use_model(self, model: ModelInfo) -> None:
        """Far answers are this model's from now on."""
        self.far_chosen = model
        self._check_labels(model)

    def record(self, pending: Pending, scheduler: Scheduler) -> Record:
        """The record of an answer that is committed before the sinks see it."""
        answer = self._answer(pending, scheduler)
        self._remember(answer)
        return self.as_record(answer)

    def release(self, pending: Pending, scheduler: Scheduler) -> Answer:
        """Hand the answer to every sink now; what is released is what is counted."""
        answer = self._answer(pending, scheduler)
        for sink in self._sinks:
            sink.offer(answer)
        if self._frame_log is not None:
            self._frame_log.answered(answer, pending.frame.picture)
            if not pending.sent_us:
                self._frame_log.settled(answer.id)
        self._remember(answer)
        return answer

    def shed(self, frame: Frame, reason: ShedReason) -> None:
        self._skip(frame)
        if self._frame_log is not None:
            self._frame_log.shed(frame, self.frame_id(frame.stream, frame.seq), reason)

    def gated(self, frame: Frame, why: str) -> None:
        self._skip(frame)
        if self._frame_log is not None:
            self._frame_log.gated(frame, self.frame_id(frame.stream, frame.seq), why)

    def late_far(self, stream: str, seq: int) -> bool:
        """A far result for an answered frame; False if it only repeats a far answer already given."""
        by = self._answered.get((stream, seq))
        if by is None or by is AnsweredBy.FAR:
            return False
        if self._frame_log is not None:
            self._frame_log.late_far(self.frame_id(stream, seq))
        return True

    @staticmethod
    def as_record(answer: Answer) -> Record:
        return Record(
            id=answer.id,
            answered_by=answer.answered_by,
            status=answer.status,
            captured_unix_us=answer.captured_unix_us,
            latency_us=answer.latency_us,
            on_time=answer.on_time,
            priority=answer.priority,
            detections=answer.detections,
            model=answer.model,
            model_sha256=answer.model_sha256,
            timing_us=answer.timing_us,
        )

    # -- inside -------------------------------------------------------------------------------------------

    def _skip(self, frame: Frame) -> None:
        for sink in self._in_order:
            sink.skip(frame.stream, frame.seq)

    def _remember(self, answer: Answer) -> None:
        """From the decision on, a far result is late, whether or not the answer is out yet."""
        self._answered[(answer.id.stream, answer.id.seq)] = answer.answered_by
        if len(self._answered) > REMEMBERED:
            self._answered.popitem(last=False)

    def _answer(self, pending: Pending, scheduler: Scheduler) -> Answer:
        give = pending.give
        if give is None:
            raise Fatal("an answer was asked for before it was decided")
        now_us = self._clock_us()
        frame = pending.frame
        detections: Detections | None = None
        model = sha256 = ""
        timing: dict[str, int] = {}
        age_frames = 0
        if give.by is AnsweredBy.FAR and pending.far is not None:
            far = pending.far
            estimate = scheduler.ways[give.link].link
            detections = far.detections
            model, sha256 = far.model, far.model_sha256
            timing = far_timing(
                captured_us=frame.captured_us,
                accepted_us=pending.accepted_us,
                encode_us=pending.encode_us,
                sent_us=pending.sent_over.get(give.link, pending.sent_us),
                arrived_us=pending.far_arrived_us,
                released_us=now_us,
                size_bytes=len(pending.payload or b""),
                rtt_min_us=estimate.rtt_min_us(now_us),
                bytes_per_us=estimate.bytes_per_us,
                worker=far.timing,
            )
        elif give.by is AnsweredBy.NEAR and pending.near is not None and pending.near.detections is not None:
            detections = pending.near.detections
            model = self._near.smaller if pending.near.small else self._near.full
            sha256 = self._near.sha256
            timing = near_timing(
                captured_us=frame.captured_us,
                accepted_us=pending.accepted_us,
                due_us=pending.near_due_us,
                started_us=pending.near.started_us,
                run_us=pending.near.run_us,
                given_us=pending.given_us,
                released_us=now_us,
            )
        elif (
            give.by is AnsweredBy.TRACKED and pending.track is not None and pending.track.carried is not None
        ):
            run, carried = pending.track, pending.track.carried
            detections, age_frames = carried.detections, carried.age_frames
            model, sha256 = carried.base.model, carried.base.model_sha256
            timing = tracked_timing(
                captured_us=frame.captured_us,
                accepted_us=pending.accepted_us,
                ready_us=run.ready_us,
                given_us=pending.given_us,
                released_us=now_us,
                age_us=carried.age_us,
                run_us=run.took_us,
            )
        priority = pending.priority
        if detections is not None:
            priority = scheduler.priority_of(frame.stream, detections, (frame.width_px, frame.height_px))
        offloaded = pending.sent_us > 0
        good = give.by in (AnsweredBy.NEAR, AnsweredBy.FAR) and give.status is Status.OK
        return Answer(
            id=self.frame_id(frame.stream, frame.seq),
            answered_by=give.by,
            status=give.status,
            captured_unix_us=frame.captured_unix_us,
            latency_us=now_us - frame.captured_us,
            deadline_us=pending.deadline_us - frame.captured_us,
            on_time=good and now_us <= pending.deadline_us,
            paced=frame.paced,
            detections=detections if give.status is Status.OK else None,
            model=model,
            model_sha256=sha256,
            priority=priority,
            reason=give.reason,
            link=give.link if give.by is AnsweredBy.FAR else ",".join(pending.sent_over),
            encoding=pending.encoding if offloaded else None,
            p_on_time=pending.p_on_time,
            timing_us=timing,
            age_frames=age_frames,
        )

    def _check_labels(self, model: ModelInfo) -> None:
        """Say once per set of labels what the far model can never report; a worker may say none."""
        if self._labels is None or not model.labels or model.labels in self._checked_labels:
            return
        self._checked_labels.add(model.labels)
        for sentence in self._labels.complaints(
            who=f"far model {model.name}", labels=model.labels, other=self._near_labels
        ):
            log.warning("%s", sentence)
