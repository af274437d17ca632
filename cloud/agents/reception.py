"""Where connections are welcomed or refused with words, and found again by name. Thread-safe; sends no frame."""

import threading
from collections.abc import Callable, Mapping

from cloud.agents.hello import refusal
from cloud.agents.roster import Roster
from cloud.agents.session import WorkerSession
from cloud.backlog.front import Backlog
from cloud.limits import ServiceLimits
from pipelines.frame import new_run
from protos.wire.session import Credit, Error, Hello, Lane, Limits, ModelInfo, Ping, RejectReason, Welcome


class Reception:
    """Decides under its lock and sends after it. `models` are those announced in every Welcome, the connection's
    own first: what it runs is said there and nowhere else. `payload_bytes`: the largest payload taken on the bulk lane,
    0 = none is."""

    def __init__(
        self,
        *,
        backlog: Backlog,
        models: Callable[[], Mapping[str, ModelInfo]],
        default_model: str,
        store_id: str,
        credit: Credit,
        limits: ServiceLimits,
        payload_bytes: int = 0,
    ) -> None:
        self._backlog = backlog
        self._models = models
        self._default_model = default_model
        self._store_id = store_id
        self._credit = credit
        self._limits = limits
        self._payload_bytes = payload_bytes
        self._run = new_run()
        self._lock = threading.Lock()
        self._roster = Roster[WorkerSession]()

    def hello(self, session: WorkerSession, hello: Hello, now_us: int) -> None:
        models = self._models()
        refused = refusal(
            hello, models=models, default_model=self._default_model, max_streams=self._limits.streams
        )
        if refused is None and self._backlog.draining:
            refused = Error(reason=RejectReason.DRAINING, text="this worker is stopping", retry=True)
        if refused:
            session.error(refused.reason, refused.text, retry=refused.retry)
            return
        with self._lock:
            if not session.open:
                return
            ask = self._roster.claim(session, hello, now_us)
            own = hello.model or self._default_model
            if ask is None:
                session.welcome(hello, own)
                if hello.lane is Lane.LIVE:
                    self._backlog.reset_credit(hello.agent)
        if ask is None:
            session.send(self._welcome(models, own, session, now_us))
            return
        for member in ask.members:
            if not member.send(Ping(nonce=ask.nonce, sent_mono_us=now_us)):
                member.closed()

    def answered(self, session: WorkerSession, nonce: int) -> None:
        """A Pong of an agent whose name another run claims."""
        with self._lock:
            refused = self._roster.answered(session.agent, session, nonce)
        for newcomer, hello in refused:
            newcomer.error(
                RejectReason.NOT_ALLOWED,
                f"agent {hello.agent!r} is connected from another process or machine that still answers; "
                "give this one another name (a cloned card clones the name too)",
                retry=False,
            )

    def leave(self, session: WorkerSession, now_us: int) -> None:
        """A connection is gone; whoever waited for its name may have it."""
        with self._lock:
            newcomers = self._roster.leave(session.agent, session)
            if self._roster.newest_live(session.agent, besides=session) is None:
                self._backlog.close_credit(session.agent)
        for newcomer, hello in newcomers:
            self.hello(newcomer, hello, now_us)

    def tick(self, now_us: int) -> None:
        """Connections that did not answer lose their name to the newcomer that claims it."""
        with self._lock:
            displaced, newcomers = self._roster.silent(now_us)
            for session in displaced:
                session.hello = None
        for newcomer, hello in newcomers:
            self.hello(newcomer, hello, now_us)

    def newest_live(self, agent: str, run: bytes, *, besides: object) -> WorkerSession | None:
        with self._lock:
            return self._roster.newest_live(agent, run, besides=besides)

    def run_of(self, agent: str) -> bytes | None:
        """The run of the connected agent of this name."""
        with self._lock:
            return self._roster.run_of(agent)

    def connections(self) -> int:
        with self._lock:
            return self._roster.connections()

    def agents(self) -> int:
        """Names with a welcomed connection."""
        with self._lock:
            return self._roster.agents()

    def _welcome(
        self, models: Mapping[str, ModelInfo], own: str, session: WorkerSession, now_us: int
    ) -> Welcome:
        window = self._backlog.load(own, now_us, told=session.live_agent).window_frames
        return Welcome(
            worker_run=self._run,
            store_id=self._store_id,
            models=(models[own], *(info for name, info in models.items() if name != own)),
            limits=Limits(
                message_bytes=self._limits.message_bytes,
                picture_px=self._limits.pixels,
                decompressed_bytes=self._limits.decompressed_bytes,
                batch_records=self._limits.batch_records,
                payload_bytes=self._payload_bytes,
            ),
            credit=Credit(frames=window or self._credit.frames, bytes=self._credit.bytes),
            takes_frames=True,
        )
