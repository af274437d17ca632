"""One connection, as its listener sees it: what each message means before and after the Hello.

Nothing but a Hello is served first. A rejected head is remembered, so that its body is discarded unread; a body
that no head announced is a counted error. Every refusal is answered with words and keeps the connection.
"""

from collections import OrderedDict
from collections.abc import Mapping
from typing import NamedTuple, Protocol

from cloud.backlog.front import Backlog
from cloud.backlog.jobs import Failed, Job
from cloud.backlog.lead import Lead
from cloud.limits import LARGEST_SEQ
from cloud.telemetry.metrics import WorkerMetrics
from pipelines.codecs.base import Codec
from pipelines.frame import FrameId
from pipelines.result import Load
from protos.endpoint import Peer, Run
from protos.wire import bulk, live, session
from protos.wire.messages import ToAgent, ToWorker
from protos.wire.session import Error, Hello, Lane, RejectReason

_REMEMBERED_HEADS = 256
_LARGEST_BUDGET_US = 3_600_000_000


class Desk(Protocol):
    """The service, as a session needs it. Callable from any listener's thread."""

    @property
    def backlog(self) -> Backlog: ...

    @property
    def codecs(self) -> Mapping[str, Codec]: ...

    @property
    def metrics(self) -> WorkerMetrics: ...

    @property
    def keeps_pictures(self) -> bool:
        """Whether the body of a frame may be wanted after it was answered."""
        ...

    def hello(self, session: "WorkerSession", hello: Hello, now_us: int) -> None:
        """Welcome it or refuse it with words."""
        ...

    def answered(self, session: "WorkerSession", nonce: int) -> None:
        """A Pong came."""
        ...

    def pong(self, session: "WorkerSession", ping: session.Ping, arrived_us: int) -> None: ...

    def bulk(self, session: "WorkerSession", message: bulk.BulkBatch | bulk.Have) -> None: ...

    def ended(self, job: Job, outcome: Failed) -> None:
        """A job that came on this connection is over without having run."""
        ...

    def run(self, lead: Lead) -> None:
        """Run a frame on the caller's thread; returns when it is answered."""
        ...

    def count_reject(self, reason: RejectReason) -> None: ...

    def turned_away(self, arrived_us: int) -> None:
        """The reject of a head that arrived then is handed to its connection."""
        ...

    def gone(self, session: "WorkerSession") -> None: ...


class _FrameRun(NamedTuple):
    """A frame for the thread that brought it."""

    service: Desk
    lead: Lead

    @property
    def quick(self) -> bool:
        return self.lead.quick

    def __call__(self) -> None:
        self.service.run(self.lead)


class WorkerSession:
    """`hello` is None until the connection was welcomed, and again after another run took its name."""

    def __init__(self, service: Desk, peer: Peer) -> None:
        self._service = service
        self._peer = peer
        self._name = ""
        self._dropped: OrderedDict[tuple[int, int], None] = OrderedDict()
        self.hello: Hello | None = None
        self.model = ""
        self.jobs: dict[tuple[int, int], Job] = {}
        self.open = True

    def __repr__(self) -> str:
        state = "welcome" if self.hello else "not welcome"
        return f"<WorkerSession {self._name or '?'} {state}{'' if self.open else ' closed'} jobs={len(self.jobs)}>"

    @property
    def agent(self) -> str:
        return self._name

    @property
    def live_agent(self) -> str:
        """Whose frames come on this connection; empty on the bulk lane and before the Hello."""
        return self.hello.agent if self.hello and self.hello.lane is Lane.LIVE else ""

    def send(self, message: ToAgent) -> bool:
        return self.open and self._peer.send(message)

    def welcome(self, hello: Hello, model: str) -> None:
        self._name, self.hello, self.model = hello.agent, hello, model

    def receive(self, message: ToWorker, arrived_us: int) -> None:
        self._receive(message, arrived_us, may_run=False)

    def receive_or_run(self, message: ToWorker, arrived_us: int) -> Run | None:
        return self._receive(message, arrived_us, may_run=True)

    def _receive(self, message: ToWorker, arrived_us: int, *, may_run: bool) -> Run | None:
        hello = self.hello
        if hello is not None and isinstance(message, live.FrameBody):
            return self._body(message, arrived_us, may_run=may_run)
        if hello is not None and isinstance(message, live.FrameHead):
            self._head(message, hello, arrived_us)
        else:
            self._receive_other(message, arrived_us)
        return None

    def _receive_other(self, message: ToWorker, arrived_us: int) -> None:
        if isinstance(message, Hello):
            if self.hello and (self.hello.agent, self.hello.run) != (message.agent, message.run):
                self.error(
                    RejectReason.NOT_ALLOWED,
                    "this connection belongs to another agent or run; open a new one",
                )
                return
            self._name = message.agent
            self._service.hello(self, message, arrived_us)
        elif isinstance(message, session.Goodbye):
            self.closed()
            self._peer.close()
        elif self.hello is None:
            self._not_welcome(message, arrived_us)
        else:
            self._serve(message, self.hello, arrived_us)

    def refuse(self, text: str) -> None:
        self.error(RejectReason.UNKNOWN_KIND, text)

    def closed(self) -> None:
        if self.open:
            self.open = False
            self._service.gone(self)

    def error(
        self, reason: RejectReason, text: str, *, retry: bool = True, batch: int = 0, have: int = 0
    ) -> None:
        self._service.metrics.errors.labels(reason.value).inc()
        self.send(Error(reason=reason, text=text, retry=retry, batch=batch, have=have))

    def _not_welcome(self, message: ToWorker, arrived_us: int) -> None:
        if isinstance(message, live.FrameHead):
            self._reject(message, RejectReason.HELLO_REQUIRED, "say Hello first", arrived_us)
        elif not (isinstance(message, live.FrameBody) and self._was_dropped(message)):
            self.error(
                RejectReason.HELLO_REQUIRED, "this worker does not know this connection; say Hello first"
            )

    def _serve(self, message: ToWorker, hello: Hello, arrived_us: int) -> None:
        match message:
            case live.Cancel():
                self._cancel(message)
            case session.Ping():
                self._service.pong(self, message, arrived_us)
            case session.Pong():
                self._service.answered(self, message.nonce)
            case bulk.BulkBatch() | bulk.Have() if hello.lane is Lane.BULK:
                self._service.bulk(self, message)
            case bulk.BulkBatch() | bulk.Have():
                self.error(RejectReason.NOT_ALLOWED, "batches and payloads go up on the bulk lane")
            case _:
                self.error(
                    RejectReason.UNKNOWN_KIND, f"{type(message).__name__} is not served by this worker"
                )

    def _head(self, head: live.FrameHead, hello: Hello, arrived_us: int) -> None:
        key = (head.stream, head.seq)
        if key in self.jobs:
            self.error(RejectReason.BAD_PAYLOAD, f"stream {head.stream} seq {head.seq} is in work already")
            return
        if hello.lane is not Lane.LIVE:
            self._reject(head, RejectReason.NOT_ALLOWED, "frames go on the live lane", arrived_us)
        elif head.stream >= len(hello.streams):
            self._reject(head, RejectReason.NOT_ALLOWED, f"Hello named no stream {head.stream}", arrived_us)
        elif not 1 <= head.seq <= LARGEST_SEQ:
            self._reject(head, RejectReason.BAD_PAYLOAD, f"{head.seq} is no sequence number", arrived_us)
        elif head.fault:
            self._reject(head, RejectReason.BAD_PAYLOAD, head.fault, arrived_us)
        elif head.encoding.codec not in self._service.codecs:
            known = ", ".join(sorted(self._service.codecs))
            self._reject(
                head,
                RejectReason.BAD_PAYLOAD,
                f"codec {head.encoding.codec!r} is not one of {known}",
                arrived_us,
            )
        else:
            stream = hello.streams[head.stream]
            job = Job(
                origin=self,
                id=FrameId(hello.agent, hello.run, stream.name, head.seq),
                head=head,
                source_size=_source_size(head),
                model=self.model,
                head_us=arrived_us,
                expiry_us=arrived_us + min(head.worker_budget_us, _LARGEST_BUDGET_US),
                keep_body=self._service.keeps_pictures,
            )
            self.jobs[key] = job
            refusal = self._service.backlog.admit(job)
            if refusal:
                del self.jobs[key]
                self._reject(head, refusal.reason, refusal.text, arrived_us)

    def _body(self, body: live.FrameBody, arrived_us: int, *, may_run: bool) -> Run | None:
        job = self.jobs.get((body.stream, body.seq))
        if job is not None:
            end = self._service.backlog.body(job, body.data, arrived_us, may_lead=may_run)
            if isinstance(end, Lead):
                return _FrameRun(self._service, end)
            if end is not None:
                self._service.ended(job, end)
        elif not self._was_dropped(body):
            self.error(
                RejectReason.BAD_PAYLOAD, f"no head announced the body of stream {body.stream} seq {body.seq}"
            )
        return None

    def _cancel(self, message: live.Cancel) -> None:
        key = (message.stream, message.seq)
        job = self.jobs.get(key)
        if job is not None and self._service.backlog.cancel(job):
            self.forget(job, body_may_come=True)
            self._service.metrics.frames.labels("cancelled").inc()

    def forget(self, job: Job, *, body_may_come: bool = False) -> None:
        """The job ended; a body that still comes for it is discarded in silence."""
        key = (job.head.stream, job.head.seq)
        self.jobs.pop(key, None)
        if body_may_come and not job.body_us:
            self._drop(key)

    def _reject(self, head: live.FrameHead, reason: RejectReason, text: str, arrived_us: int) -> None:
        self._drop((head.stream, head.seq))
        load = (
            self._service.backlog.load(self.model, arrived_us, told=self.live_agent) if self.model else Load()
        )
        self._service.count_reject(reason)
        self.send(
            live.Reject(
                stream=head.stream, seq=head.seq, reason=reason, queue_us=load.queue_us, load=load, text=text
            )
        )
        self._service.turned_away(arrived_us)

    def _drop(self, key: tuple[int, int]) -> None:
        self._dropped[key] = None
        while len(self._dropped) > _REMEMBERED_HEADS:
            self._dropped.popitem(last=False)

    def _was_dropped(self, body: live.FrameBody) -> bool:
        key = (body.stream, body.seq)
        if key not in self._dropped:
            return False
        del self._dropped[key]
        return True


def _source_size(head: live.FrameHead) -> tuple[int, int]:
    """(width_px, height_px) that boxes come back in: as the head says, else as encoded."""
    if head.source_width_px and head.source_height_px:
        return head.source_width_px, head.source_height_px
    return head.encoding.width_px, head.encoding.height_px
