"""A worker that does as it is told, so that links can be judged without a service."""

import threading
from typing import ClassVar

from pipelines.result import Detections, Load, WorkerTiming
from protos.endpoint import Peer
from protos.wire.live import FrameBody, FrameHead, Result
from protos.wire.messages import ToWorker
from protos.wire.session import Credit, Error, Hello, Lane, Limits, ModelInfo, Ping, Pong, Welcome

WELCOME = Welcome(
    worker_run=bytes(16),
    store_id="store",
    models=(
        ModelInfo(name="thing", sha256="ab" * 32, labels=("thing",), input_width_px=32, input_height_px=24),
    ),
    limits=Limits(message_bytes=8 << 20, picture_px=1 << 22, decompressed_bytes=1 << 24, batch_records=500),
    credit=Credit(frames=8, bytes=1 << 22),
    takes_frames=True,
)


def result(stream: int, seq: int, *, spread_us: int = 0) -> Result:
    return Result(
        stream=stream,
        seq=seq,
        detections=Detections.empty(),
        model="thing",
        model_sha256="ab" * 32,
        timing=WorkerTiming(head_mono_us=1, body_mono_us=1 + spread_us),
        load=Load(),
    )


class ScriptedSession:
    """One connection: `received` as it came, bodies copied. `deaf` True: it takes everything, answers nothing."""

    def __init__(self, endpoint: "ScriptedEndpoint", peer: Peer) -> None:
        self.peer = peer
        self.agent = ""
        self.lane: Lane | None = None
        self.deaf = False
        self.ended = False
        self.received: list[ToWorker] = []
        self.refused: list[str] = []
        self._endpoint = endpoint

    def receive(self, message: ToWorker, arrived_us: int) -> None:
        if not self._endpoint.reading.wait(20.0):
            raise AssertionError("nobody let this worker read again")
        if isinstance(message, FrameBody):
            message = FrameBody(stream=message.stream, seq=message.seq, data=bytes(message.data))
        self.received.append(message)
        if not self.deaf:
            self._answer(message, arrived_us)

    def receive_or_run(self, message: ToWorker, arrived_us: int) -> None:
        self.receive(message, arrived_us)

    def _answer(self, message: ToWorker, arrived_us: int) -> None:
        match message:
            case Hello():
                self.agent, self.lane = message.agent, message.lane
                if not self._endpoint.silent:
                    self.peer.send(self._endpoint.refusal or self._endpoint.welcome)
            case Ping():
                self.peer.send(Pong(nonce=message.nonce, arrived_mono_us=arrived_us, resident_us=0))
            case FrameBody():
                self.peer.send(result(message.stream, message.seq, spread_us=self._endpoint.spread_us))

    def refuse(self, text: str) -> None:
        self.refused.append(text)

    def closed(self) -> None:
        self.ended = True

    @property
    def frames(self) -> list[FrameHead | FrameBody]:
        return [m for m in tuple(self.received) if isinstance(m, FrameHead | FrameBody)]


class ScriptedEndpoint:
    """Welcomes everybody, unless `refusal` is set or it is `silent` (F07). While `reading` is clear it takes nothing
    off the wire. Its sessions are of `session_type`."""

    session_type: ClassVar[type[ScriptedSession]] = ScriptedSession

    def __init__(self) -> None:
        self.sessions: list[ScriptedSession] = []
        self.refusal: Error | None = None
        self.welcome = WELCOME
        self.silent = False
        self.spread_us = 0  # what its results say lay between head and body
        self.reasons: list[str] = []
        self.reading = threading.Event()
        self.reading.set()

    def open(self, peer: Peer) -> ScriptedSession:
        session = self.session_type(self, peer)
        self.sessions.append(session)
        return session

    def not_ready(self) -> list[str]:
        return self.reasons

    def on(self, lane: Lane) -> list[ScriptedSession]:
        """Connections that said Hello on this lane, oldest first."""
        return [s for s in tuple(self.sessions) if s.lane is lane]


class BreaksOnce(ScriptedEndpoint):
    """Its first connection meets an error nobody foresaw."""

    broken = 0

    def open(self, peer: Peer) -> ScriptedSession:
        self.broken += 1
        if self.broken == 1:
            raise ZeroDivisionError("nobody foresaw this")
        return super().open(peer)
