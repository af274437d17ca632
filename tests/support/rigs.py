"""One service with its store, its detector and connections to it, driven message by message."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cloud.agents.session import WorkerSession
from cloud.limits import ServiceLimits
from cloud.service import Service
from cloud.store.records import RecordStore
from pipelines.frame import Encoding
from protos.wire.live import FrameBody, FrameHead
from protos.wire.session import (
    Error,
    Hello,
    Lane,
    RejectReason,
    StreamInfo,
    Welcome,
)
from tests.support.peers import FakePeer
from tests.support.workers import GatedDetector, clock_us, service

RUN = bytes(range(16))
OTHER_RUN = bytes(16)
HELLO = Hello(
    agent="gw", run=RUN, lane=Lane.LIVE, streams=(StreamInfo(name="door", width_px=640, height_px=480),)
)
ENCODING = Encoding(codec="raw", quality=50, width_px=320, height_px=240, body_bytes=10)


class Rig:
    """One service, its store, its detector, and connections to it."""

    def __init__(self, made: Service, store: RecordStore, detector: GatedDetector) -> None:
        self.service, self.store, self.detector = made, store, detector
        self.peer = FakePeer()
        self.session = made.open(self.peer)

    def connect(self, hello: Hello) -> tuple[FakePeer, WorkerSession]:
        peer = FakePeer()
        session = self.service.open(peer)
        session.receive(hello, clock_us())
        return peer, session

    def welcome(self) -> None:
        self.session.receive(HELLO, clock_us())
        self.peer.only(Welcome)

    def head(
        self, seq: int, *, budget_us: int = 5_000_000, encoding: Encoding = ENCODING, stream: int = 0
    ) -> None:
        self.session.receive(
            FrameHead(
                stream=stream,
                seq=seq,
                worker_budget_us=budget_us,
                sent_mono_us=0,
                encoding=encoding,
                source_width_px=640,
                source_height_px=480,
            ),
            clock_us(),
        )

    def body(self, seq: int, data: bytes = b"0123456789") -> None:
        self.session.receive(FrameBody(stream=0, seq=seq, data=data), clock_us())

    def frame(self, seq: int, *, budget_us: int = 5_000_000) -> None:
        self.head(seq, budget_us=budget_us)
        self.body(seq)

    def errors(self) -> list[RejectReason]:
        return [e.reason for e in self.peer.all(Error)]

    def outcome(self, name: str) -> float:
        return self.service.metrics.value("nearfar_worker_frames_total", outcome=name)


@contextmanager
def rig_in(
    folder: Path,
    *,
    limits: ServiceLimits | None = None,
    clock: Callable[[], int] = clock_us,
    timer: bool = True,
    url: str = "",
    payload_bytes: int = 0,
    detector: GatedDetector | None = None,
) -> Iterator[Rig]:
    detector = detector or GatedDetector()
    with service(
        folder,
        build=lambda: detector,
        limits=limits,
        clock=clock,
        timer=timer,
        url=url,
        payload_bytes=payload_bytes,
    ) as (made, store):
        try:
            yield Rig(made, store, detector)
        finally:
            detector.gate.set()
