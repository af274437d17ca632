"""Clients that are no agent: one picture in, one result or one refusal out, through the same admission and queue.

All calls that name no frame share one window, as one agent would have it. What a call asks to be kept is answered
after its commit, since nobody would bring it again. A call that is given up before its run has started ends there.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Protocol

from cloud.agents.hello import model_fault, name_fault
from cloud.agents.session import Desk
from cloud.backlog.jobs import Failed, Job
from cloud.limits import LARGEST_SEQ
from pipelines.codecs.headers import codec_of, shape_in
from pipelines.errors import Rejected
from pipelines.frame import Encoding, FrameId, new_run
from pipelines.result import Load
from protos.wire.bulk import Ack
from protos.wire.infer import InferReply, InferRequest
from protos.wire.live import FrameHead, Reject, Result
from protos.wire.messages import ToAgent
from protos.wire.session import ModelInfo, RejectReason

DEFAULT_BUDGET_US = 10_000_000
"""Of a call that says nothing of time."""
COMMIT_WITHIN_US = 1_000_000
"""How long a result that is to be kept waits for its commit."""
_GRACE_US = 100_000  # until what expired in the queue has said so
_TO_DO = {
    RejectReason.OVER_CREDIT: ": come back when one has ended, with fewer at once; per_agent.frames_in_flight of the "
    "worker, which all clients that name no frame share, may be raised",
    RejectReason.QUEUE_FULL: ": come back later",
}
NOBODY = ""
"""Whose window calls use that name no frame: no agent has this name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declined:
    """No result, in words. `retry`: the same call may succeed later. `queue_us`: the delay it would have met."""

    reason: RejectReason
    text: str
    retry: bool
    queue_us: int = 0


class SimpleDesk(Desk, Protocol):
    """The service, as simple clients need it."""

    @property
    def models(self) -> Mapping[str, ModelInfo]: ...

    @property
    def default_model(self) -> str: ...

    def run_of(self, agent: str) -> bytes | None:
        """The run of the connected agent of this name."""
        ...


class SimpleCall:
    """One call: where its result comes back to. `wait` from the thread that called; the rest from any."""

    def __init__(self, *, to_keep: bool, cancel: Callable[[Job], bool]) -> None:
        self._to_keep = to_keep
        self._cancel = cancel
        self._answered = threading.Event()
        self._committed = threading.Event()
        self._gone = False
        self._message: Result | Reject | None = None
        self.job: Job | None = None

    def send(self, message: ToAgent) -> bool:
        """A result, a reject, or the word that the record is committed; False once nobody waits for it."""
        if isinstance(message, Ack):
            self._committed.set()
        elif isinstance(message, Result | Reject):
            self._message = message
            self._answered.set()
        return not self._gone

    def forget(self, job: Job, *, body_may_come: bool = False) -> None:
        """Nothing is remembered of a call but what it waits for."""

    def give_up(self) -> None:
        """Nobody waits any more: what has not started need not."""
        self._gone = True
        if self.job is not None and self._cancel(self.job):
            self._answered.set()

    def wait(self, within_us: int) -> InferReply | Declined:
        if not self._answered.wait((within_us + _GRACE_US) / 1e6) or self._message is None:
            self.give_up()
            text = "no result within its budget; a run that had begun goes on for nobody"
            return Declined(reason=RejectReason.EXPIRED, text=text, retry=True)
        message = self._message
        if isinstance(message, Reject):
            return Declined(
                reason=message.reason,
                text=message.text,
                retry=_may_pass(message.reason),
                queue_us=message.queue_us,
            )
        return InferReply(
            detections=message.detections,
            model=message.model,
            model_sha256=message.model_sha256,
            timing=message.timing,
            load=message.load,
            kept=self._to_keep and self._committed.wait(COMMIT_WITHIN_US / 1e6),
        )


class SimpleClients:
    """Callable from any thread; `ask` returns when the call has ended."""

    def __init__(self, desk: SimpleDesk, *, clock_us: Callable[[], int]) -> None:
        self._desk = desk
        self._clock_us = clock_us
        self._run = new_run()
        self._numbers = count(1)

    def ask(
        self,
        request: InferRequest,
        *,
        remaining_us: int | None,
        arrived_us: int,
        on_call: Callable[[SimpleCall], None] = lambda _: None,
    ) -> InferReply | Declined:
        """`remaining_us`: until the caller's own deadline, None = it has none. `on_call` is given what can be given up,
        before anything waits."""
        try:
            encoding = self._encoding(request)
        except Rejected as error:
            return self._declined(RejectReason.BAD_PAYLOAD, str(error))
        model = request.model or self._desk.default_model
        models = self._desk.models
        if words := model_fault(model, sha256=request.model_sha256, input_px=(0, 0), models=models):
            return self._declined(RejectReason.NO_MODEL, words)
        if words := self._id_fault(request.id):
            return self._declined(RejectReason.NOT_ALLOWED, words)
        longest_us = DEFAULT_BUDGET_US if remaining_us is None else remaining_us
        budget_us = request.budget_us or longest_us
        if remaining_us is not None:
            budget_us = min(budget_us, remaining_us)
        call = SimpleCall(to_keep=request.id is not None, cancel=self._give_up)
        job = self._job(request, encoding, call, model=model, budget_us=budget_us, arrived_us=arrived_us)
        refusal = self._desk.backlog.admit(job)
        if refusal is not None:
            load = self._desk.backlog.load(model, arrived_us)
            return self._declined(refusal.reason, refusal.text, load)
        call.job = job
        on_call(call)
        failed = self._desk.backlog.body(job, request.data, self._clock_us())
        if isinstance(failed, Failed):
            self._desk.ended(job, failed)
        return call.wait(budget_us)

    def _job(
        self,
        request: InferRequest,
        encoding: Encoding,
        call: SimpleCall,
        *,
        model: str,
        budget_us: int,
        arrived_us: int,
    ) -> Job:
        frame = request.id or FrameId(NOBODY, self._run, "infer", next(self._numbers))
        size = (encoding.width_px, encoding.height_px)
        source = size if request.source_size == (0, 0) else request.source_size
        head = FrameHead(
            stream=0,
            seq=frame.seq,
            worker_budget_us=budget_us,
            sent_mono_us=0,
            encoding=encoding,
            source_width_px=source[0],
            source_height_px=source[1],
        )
        return Job(
            origin=call,
            id=frame,
            head=head,
            source_size=source,
            model=model,
            head_us=arrived_us,
            expiry_us=arrived_us + budget_us,
            to_store=request.id is not None,
            awaits_commit=request.id is not None,
            keep_body=request.id is not None and self._desk.keeps_pictures,
        )

    def _encoding(self, request: InferRequest) -> Encoding:
        """What the request says of its picture, and where it is silent what the picture says itself."""
        codec = request.codec or codec_of(request.data)
        known = ", ".join(sorted(self._desk.codecs))
        if codec not in self._desk.codecs:
            if request.codec:
                raise Rejected(f"codec {codec!r} is not one of {known}")
            raise Rejected(f"data begins like no picture known here: name its codec, one of {known}")
        shape = None
        if request.size == (0, 0):
            shape = shape_in(request.data, codec)
            if shape is None:
                raise Rejected(f"a {codec} picture does not say its size: give width_px and height_px")
        width_px, height_px = (shape.width_px, shape.height_px) if shape else request.size
        return Encoding(
            codec=codec,
            quality=0,
            width_px=width_px,
            height_px=height_px,
            bits=request.bits or (shape.bits if shape else 8),
            channels=request.channels or (shape.channels if shape else 3),
            body_bytes=len(request.data),
        )

    def _id_fault(self, frame: FrameId | None) -> str:
        """Why no record may be kept under this identity; empty if one may, or none is wanted."""
        if frame is None:
            return ""
        if words := name_fault("agent", frame.agent) or name_fault("stream", frame.stream):
            return words
        if not 1 <= frame.seq <= LARGEST_SEQ:
            return f"seq counts from 1 to {LARGEST_SEQ}; {frame.seq} is none of them"
        if self._desk.run_of(frame.agent) not in (None, frame.run):
            return f"agent {frame.agent!r} is connected, with another run: a client needs a name of its own"
        return ""

    def _give_up(self, job: Job) -> bool:
        """Whether it had not begun, and is over now."""
        if not self._desk.backlog.cancel(job):
            return False
        self._desk.metrics.frames.labels("cancelled").inc()
        return True

    def _declined(self, reason: RejectReason, text: str, load: Load | None = None) -> Declined:
        self._desk.count_reject(reason)
        return Declined(
            reason=reason,
            text=text + _TO_DO.get(reason, ""),
            retry=load is not None and _may_pass(reason),
            queue_us=0 if load is None else load.queue_us,
        )


def _may_pass(reason: RejectReason) -> bool:
    """Whether what was refused in the queue may be taken later."""
    return reason not in (RejectReason.TOO_LARGE, RejectReason.BAD_PAYLOAD)
