"""A reply that is held for company goes out in time, whatever is read behind its frame."""

import threading
from collections.abc import Iterator

import pytest

from cloud.listeners.zmq.listener import ZmqListener
from edge.links.base import Connected, LinkEvent, Received, Sent
from edge.links.zmq import ZmqLink
from pipelines.runtime import monotonic_us
from protos.endpoint import Peer
from protos.wire.live import Cancel, FrameBody, FrameHead, Result
from protos.wire.messages import ToWorker
from protos.wire.session import Lane, Ping
from tests.support.endpoints import ScriptedEndpoint, ScriptedSession, result
from tests.support.eventually import eventually
from tests.support.rigs import ENCODING, HELLO


class Quick:
    """A frame to be run at once on the reading thread."""

    quick = True

    def __init__(self, peer: Peer, body: FrameBody) -> None:
        self._peer, self._name = peer, (body.stream, body.seq)

    def __call__(self) -> None:
        self._peer.send(result(*self._name))


class Clerk(ScriptedSession):
    """Its frames are quick. A cancel of frame 2 takes 1 ms of the worker's time, one of frame 3 until `go_on`."""

    def receive_or_run(self, message: ToWorker, arrived_us: int) -> Quick | None:  # type: ignore[override]
        if isinstance(message, FrameBody):
            return Quick(self.peer, message)
        self.receive(message, arrived_us)
        return None

    def receive(self, message: ToWorker, arrived_us: int) -> None:
        office = self._endpoint
        assert isinstance(office, Office)
        if isinstance(message, Cancel):
            office.now_us += 1_000
            if message.seq == 3:
                office.at_cancel.set()
                assert office.go_on.wait(20.0)
        super().receive(message, arrived_us)


class Office(ScriptedEndpoint):
    """Where time passes only while it cancels."""

    session_type = Clerk

    def __init__(self) -> None:
        super().__init__()
        self.now_us = 1_000_000
        self.at_cancel, self.go_on = threading.Event(), threading.Event()


@pytest.fixture
def office() -> Iterator[tuple[Office, ZmqListener]]:
    made = Office()
    listener = ZmqListener(made, address="127.0.0.1:0", clock_us=lambda: made.now_us)
    listener.start()
    yield made, listener
    made.reading.set()
    made.go_on.set()
    listener.stop()


def test_no_reply_is_kept_by_messages_that_are_no_frames(office: tuple[Office, ZmqListener]) -> None:
    made, listener = office
    heard: list[LinkEvent] = []
    url = listener.address.replace("tcp", "zmq")
    link = ZmqLink(name="cable", url=url, clock_us=monotonic_us)
    link.start(HELLO, heard.append)
    try:
        eventually(
            lambda: any(isinstance(e, Connected) and e.lane is Lane.LIVE for e in list(heard)),
            what="a Welcome",
        )
        made.reading.clear()  # what follows waits behind a ping, and then comes without a pause
        assert link.send(Ping(nonce=1, sent_mono_us=0)) is Sent.ACCEPTED
        for seq in (1, 2):
            head = FrameHead(
                stream=0, seq=seq, worker_budget_us=60_000_000, sent_mono_us=0, encoding=ENCODING
            )
            assert link.send(head, FrameBody(stream=0, seq=seq, data=b"x")) is Sent.ACCEPTED
        for seq in (2, 3):
            assert link.send(Cancel(stream=0, seq=seq)) is Sent.ACCEPTED
        made.reading.set()
        assert made.at_cancel.wait(20.0)
        eventually(
            lambda: (
                [
                    e.message.seq
                    for e in list(heard)
                    if isinstance(e, Received) and isinstance(e.message, Result)
                ]
                == [1, 2]
            ),
            what="both answers, while a cancel behind them is looked at",
        )
    finally:
        made.go_on.set()
        link.close()
