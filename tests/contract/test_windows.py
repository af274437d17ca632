"""Through the house, over every link: a worker whose queue is long gives smaller windows, its agents obey and lose
nothing."""

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from cloud.limits import ServiceLimits
from cloud.listeners.base import Listener
from cloud.listeners.kinds import LISTENERS
from cloud.service import Service
from edge.links.base import Connected, LinkEvent, Received
from edge.links.kinds import LINKS
from edge.scheduling.scheduler import Scheduler
from pipelines.result import Priority
from protos.wire.live import Reject, Result
from protos.wire.session import Goodbye, Lane, Ping, Pong, Welcome
from tests.support.agents import HELLO, agent, frame, port_of
from tests.support.eventually import eventually
from tests.support.rigs import OTHER_RUN
from tests.support.virtual import LINK, settings
from tests.support.workers import MODEL, GatedDetector, clock_us, service

KINDS = [kind.name for kind in LISTENERS]


@contextmanager
def working(kind: str, folder: Path) -> Iterator[tuple[Service, Listener, GatedDetector]]:
    detector = GatedDetector()
    limits = ServiceLimits(shrink_above_us=10_000)
    with service(folder, build=lambda: detector, limits=limits) as (made, _):
        listener: Listener = LISTENERS[kind].resolve()(made, address="127.0.0.1:0", clock_us=clock_us)
        listener.start()
        try:
            yield made, listener, detector
        finally:
            detector.gate.set()
            listener.stop()


class Gateway:
    """A link and the scheduler's way over it, as the agent's dispatcher joins them."""

    def __init__(self, kind: str, port: int) -> None:
        self.scheduler = Scheduler(settings(), {})
        self.way = self.scheduler.ways[LINK]
        self.link = LINKS[kind].resolve()(name=LINK, url=f"{kind}://127.0.0.1:{port}", clock_us=clock_us)
        self.connected = False
        self.pings = 0
        self.link.start(HELLO, self.heard)

    def heard(self, event: LinkEvent) -> None:
        match event:
            case Connected(lane=Lane.LIVE):
                self.scheduler.welcomed(LINK, event.connection, event.welcome.credit, clock_us())
                self.connected = True
            case Received(message=Pong() as pong):
                self.scheduler.pong(
                    LINK, pong.nonce, resident_us=0, load=pong.load, credit=pong.credit, now_us=clock_us()
                )

    def window(self) -> int:
        """What it may have in flight, after one more word of the worker."""
        self.pings += 1
        self.link.send(Ping(nonce=self.pings, sent_mono_us=clock_us()))
        shown = re.search(r" of (\d+) under way", repr(self.way))
        assert shown is not None
        return int(shown[1])

    def close(self) -> None:
        self.link.close()


@pytest.mark.parametrize("kind", KINDS)
def test_windows_shrink_while_the_queue_is_long_and_come_back_when_it_is_not(
    kind: str, tmp_path: Path
) -> None:
    with (
        working(kind, tmp_path) as (made, listener, detector),
        agent(listener.address) as other,
        closing(Gateway(kind, port_of(listener.address))) as gateway,
    ):
        eventually(lambda: gateway.connected, what="a welcome")
        assert gateway.window() == 8
        made.backlog.work.ready(MODEL, change=0, seen=[(1, 20_000)])
        made.backlog.work.ready(MODEL, change=0, seen=[(1, 20_000)])
        detector.gate.clear()
        other.send(replace(HELLO, agent="busy", run=OTHER_RUN))
        assert other.until(Welcome).credit.frames == 8
        for seq in range(1, 9):
            other.send(*frame(seq, b"0123456789", codec="raw"))
        eventually(lambda: made.backlog.waiting()[0] == 7, what="a long queue")
        eventually(lambda: gateway.window() == 1, what="the smallest window")
        assert gateway.way.room_bytes(Priority.NORMAL, clock_us()) > 0, "never below one frame"
        assert made.metrics.value("nearfar_worker_window_frames") == 1

        detector.gate.set()
        replies = [other.until(Result) for _ in range(8)]
        assert min(reply.load.window_frames for reply in replies) >= 1
        eventually(lambda: gateway.window() == 8, what="the whole window back")
        assert made.metrics.value("nearfar_worker_window_frames") == 8


@pytest.mark.parametrize("kind", KINDS)
def test_frames_of_the_older_window_are_taken_and_replies_tell_the_smaller_one(
    kind: str, tmp_path: Path
) -> None:
    with (
        working(kind, tmp_path) as (made, listener, detector),
        agent(listener.address) as gateway,
    ):
        made.backlog.work.ready(MODEL, change=0, seen=[(1, 20_000)])
        made.backlog.work.ready(MODEL, change=0, seen=[(1, 20_000)])
        detector.gate.clear()
        gateway.send(HELLO)
        gateway.until(Welcome)
        for seq in range(1, 5):
            gateway.send(*frame(seq, b"0123456789", codec="raw"))

        def told() -> int:
            gateway.send(Ping(nonce=1, sent_mono_us=0))
            credit = gateway.until(Pong).credit
            assert credit is not None
            return credit.frames

        eventually(lambda: told() == 1, what="the smallest window")
        for seq in range(5, 9):  # sent, as it were, before that was heard
            gateway.send(*frame(seq, b"0123456789", codec="raw"))
        gateway.send(*frame(9, b"0123456789", codec="raw"))  # beyond any window it ever had
        reject = gateway.until(Reject)
        assert (reject.seq, reject.reason.value) == (9, "over_credit")
        assert reject.load.window_frames == 1
        detector.gate.set()
        results = [gateway.until(Result) for _ in range(8)]
        assert [result.seq for result in results] == list(range(1, 9))
        assert results[0].load.window_frames == 1


@pytest.mark.parametrize("kind", KINDS)
def test_an_agent_that_is_gone_leaves_its_share_to_the_others(kind: str, tmp_path: Path) -> None:
    with working(kind, tmp_path) as (made, listener, _):
        with agent(listener.address) as gateway:
            gateway.send(HELLO)
            gateway.until(Welcome)
            assert made.backlog.sharers == 1
            gateway.send(*frame(1, b"0123456789", codec="raw"))
            gateway.until(Result)
            gateway.send(Goodbye(reason="done"))
            eventually(lambda: made.sessions == 0, what="its end")
        assert made.backlog.sharers == 0
