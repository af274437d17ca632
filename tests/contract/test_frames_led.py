"""Over every wire: the thread that read a frame runs it where nothing is before it, and nothing is lost by that."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cloud.listeners.kinds import LISTENERS
from cloud.service import Service
from edge.links.base import Connected, Link, LinkEvent, Received, Sent
from edge.links.kinds import LINKS
from pipelines.detectors.base import CancelToken
from pipelines.frame import Picture
from pipelines.result import Detections
from pipelines.runtime import monotonic_us
from protos.wire.live import FrameBody, FrameHead, Reject, Result
from protos.wire.session import Lane, Ping, Pong
from tests.support.eventually import eventually
from tests.support.rigs import ENCODING, HELLO
from tests.support.workers import GatedDetector, service

WARM_UP = 3  # a model that has been seen to be quick: nobody is woken to read on before it runs


class Witness(GatedDetector):
    """Says which thread ran it. `held`: number of a run → what it waits for at its end."""

    def __init__(self) -> None:
        super().__init__()
        self.by: list[str] = []
        self.held: dict[int, threading.Event] = {}

    def detect(self, picture: Picture, cancel: CancelToken | None = None) -> Detections:
        self.by.append(threading.current_thread().name)
        held = self.held.get(len(self.by))
        found = super().detect(picture, cancel)
        if held is not None:
            held.wait(10.0)
        return found


class Site:
    """A worker behind a listener, its detector, and an agent's link to it."""

    def __init__(self, made: Service, detectors: list[Witness], link: Link) -> None:
        self.service, self.link = made, link
        self._detectors = detectors
        self.heard: list[LinkEvent] = []

    @property
    def detector(self) -> Witness:
        return self._detectors[-1]

    @property
    def built(self) -> int:
        return len(self._detectors)

    def frame(self, seq: int) -> None:
        head = FrameHead(stream=0, seq=seq, worker_budget_us=60_000_000, sent_mono_us=0, encoding=ENCODING)
        assert self.link.send(head, FrameBody(stream=0, seq=seq, data=b"x" * 10)) is Sent.ACCEPTED

    def answers(self) -> list[Result | Reject]:
        return [
            e.message
            for e in list(self.heard)
            if isinstance(e, Received) and isinstance(e.message, Result | Reject)
        ]

    def pongs(self) -> list[int]:
        return [
            e.message.nonce
            for e in list(self.heard)
            if isinstance(e, Received) and isinstance(e.message, Pong)
        ]

    def answered(self, count: int) -> list[Result | Reject]:
        eventually(lambda: len(self.answers()) >= count, what=f"{count} answers")
        return self.answers()


@contextmanager
def site_on(kind: str, folder: Path, *, warm_up: int) -> Iterator[Site]:
    detectors: list[Witness] = []

    def build() -> Witness:
        detectors.append(Witness())
        return detectors[-1]

    with service(folder, build=build, warm_up=warm_up) as (made, _):
        listener = LISTENERS[kind].resolve()(made, address="127.0.0.1:0", clock_us=monotonic_us)
        listener.start()
        url = f"{kind}://{listener.address.rpartition('//')[2]}"
        site = Site(made, detectors, LINKS[kind].resolve()(name="cable", url=url, clock_us=monotonic_us))
        site.link.start(HELLO, site.heard.append)
        try:
            live = lambda: any(isinstance(e, Connected) and e.lane is Lane.LIVE for e in list(site.heard))  # noqa: E731
            eventually(live, what="a Welcome")
            yield site
        finally:
            for detector in detectors:
                detector.gate.set()
            site.link.close()
            listener.stop()


@pytest.fixture(params=[0, WARM_UP], ids=["not-known", "quick"])
def warm_up(request: pytest.FixtureRequest) -> int:
    """Runs before the first frame: without any nobody knows how long one takes."""
    return int(request.param)


@pytest.fixture(params=["zmq", "grpc"])
def site(request: pytest.FixtureRequest, tmp_path: Path, warm_up: int) -> Iterator[Site]:
    with site_on(request.param, tmp_path, warm_up=warm_up) as made:
        yield made


def test_a_frame_that_nothing_is_before_is_run_by_a_thread_that_reads(site: Site) -> None:
    for seq in (1, 2, 3):
        site.frame(seq)
        site.answered(seq)
    led = [name for name in site.detector.by if "detect" not in name and name != "MainThread"]
    assert len(led) == 3


def test_while_a_frame_hangs_in_the_model_pings_are_answered_and_frames_admitted(site: Site) -> None:
    site.detector.gate.clear()
    site.frame(1)
    eventually(site.detector.running.is_set, what="the run")
    site.link.send(Ping(nonce=7, sent_mono_us=0))
    eventually(lambda: site.pongs() == [7], what="a Pong, while the model hangs")
    site.frame(2)
    eventually(lambda: site.service.backlog.waiting()[0] == 1, what="the second frame, admitted")
    site.detector.gate.set()
    assert sorted(answer.seq for answer in site.answered(2)) == [1, 2]
    assert all(isinstance(answer, Result) for answer in site.answers())


def test_every_frame_of_a_burst_is_answered_once(site: Site) -> None:
    for seq in range(1, 201):
        # Of ZeroMQ's 16 messages up to 7 are counted as waiting a while after they have gone.
        eventually(lambda: seq - len(site.answers()) < 5, what="room for one more")  # noqa: B023 - called at once
        site.frame(seq)
    assert sorted(answer.seq for answer in site.answered(200)) == list(range(1, 201))
    assert site.service.drain(5_000_000)


def test_an_engine_that_breaks_under_a_reading_thread_is_built_anew_by_its_own(site: Site) -> None:
    site.detector.fail = RuntimeError("the engine is gone")
    site.frame(1)
    assert isinstance(site.answered(1)[0], Reject)
    eventually(lambda: site.built == 2, what="a new engine")
    eventually(lambda: not site.service.not_ready(), what="a ready worker")
    site.frame(2)
    assert isinstance(site.answered(2)[1], Result)


def test_a_worker_that_stops_while_a_frame_is_led_leaves_nobody_behind(site: Site) -> None:
    site.detector.gate.clear()
    site.frame(1)
    eventually(site.detector.running.is_set, what="the run")
    stopping = threading.Thread(target=site.service.stop)
    stopping.start()
    site.detector.gate.set()
    stopping.join(10.0)
    assert site.service.left_behind == []
    site.answered(1)


def test_a_frame_that_is_answered_waits_for_no_other_that_is_run_after_it(site: Site) -> None:
    """Whoever led the first one is not kept by what queued up meanwhile."""
    second = site.detector.held[len(site.detector.by) + 2] = threading.Event()
    site.detector.gate.clear()
    site.frame(1)
    eventually(site.detector.running.is_set, what="the run")
    site.frame(2)
    eventually(lambda: site.service.backlog.waiting()[0] == 1, what="the second frame, admitted")
    site.detector.gate.set()
    assert [answer.seq for answer in site.answered(1)] == [1]
    assert len(site.answers()) == 1, "the second one is still in the model"
    second.set()
    site.answered(2)


def test_no_answer_is_kept_by_a_frame_that_hangs_behind_it_though_they_came_without_a_pause(
    site: Site,
) -> None:
    seq = 0
    for _ in range(3):
        last = site.detector.held[len(site.detector.by) + 5] = threading.Event()
        for _ in range(5):
            seq += 1
            site.frame(seq)
        assert sorted(answer.seq for answer in site.answered(seq - 1)) == list(range(1, seq))
        assert len(site.answers()) == seq - 1, "the last one is still in the model"
        last.set()
        site.answered(seq)
