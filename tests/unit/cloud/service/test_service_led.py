"""A frame that the thread which brought it runs is judged, counted and charged as any other, or is not led at all."""

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from cloud.backlog.jobs import Job
from cloud.config import load_worker
from cloud.engine.of_worker import engines_of, in_engines
from cloud.models.spec import ModelSpec, model_specs
from cloud.models.thread_plan import thread_plan
from cloud.scheduling.batch_rule import BatchRule
from cloud.service import Service
from pipelines.codecs.base import PictureLimits
from pipelines.frame import Encoding, Picture
from protos.endpoint import Run
from protos.wire.live import FrameBody, FrameHead, Reject, Result
from protos.wire.session import Ping, Pong, RejectReason
from tests.support.eventually import eventually
from tests.support.peers import FakePeer
from tests.support.rigs import ENCODING, HELLO
from tests.support.workers import MODEL, WORKER_YAML, GatedDetector, RawCodec, clock_us, service

MS = 1000


class Slow(RawCodec):
    """Decoding takes `takes_us` of the clock in `now`."""

    def __init__(self, now: list[int], takes_us: int) -> None:
        self._now, self._takes_us = now, takes_us

    def decode(self, data: bytes | memoryview, encoding: Encoding, limits: PictureLimits) -> Picture:
        self._now[0] += self._takes_us
        return super().decode(data, encoding, limits)


class Bringer:
    """An agent's connection, and the thread that reads it: it is the caller's."""

    def __init__(self, made: Service, name: str = "gw", now_us: Callable[[], int] = clock_us) -> None:
        self.peer = FakePeer()
        self.now_us = now_us
        self.session = made.open(self.peer)
        self.session.receive(replace(HELLO, agent=name), now_us())

    def frame(self, seq: int, budget_us: int = 5_000 * MS) -> Run | None:
        head = FrameHead(stream=0, seq=seq, worker_budget_us=budget_us, sent_mono_us=0, encoding=ENCODING)
        self.session.receive(head, self.now_us())
        body = FrameBody(stream=0, seq=seq, data=b"0123456789")
        return self.session.receive_or_run(body, self.now_us())

    def led(self, seq: int, budget_us: int = 5_000 * MS) -> Run:
        run = self.frame(seq, budget_us)
        assert run is not None
        return run


def asleep(made: Service) -> bool:
    return len(made.backlog.lanes[MODEL].idle) > 0


def running(made: Service) -> Job:
    (jobs,) = made.backlog.lanes[MODEL].taken.values()
    return jobs[0]


def test_a_model_that_runs_in_batches_is_not_led() -> None:
    for most, led in ((1, True), (2, False)):
        spec = ModelSpec(name=MODEL, build=GatedDetector, batch=BatchRule(max=most, wait_us=10 * MS))
        assert spec.lane(decoders=1).may_be_led is led


@pytest.mark.parametrize("processes", [0, 2])
def test_a_model_in_an_engine_process_is_not_led_because_an_engine_that_hangs_would_hold_a_listener(
    tmp_path: Path, processes: int
) -> None:
    path = tmp_path / "worker.yaml"
    path.write_text(WORKER_YAML.format(state_dir=tmp_path, delay="10ms") + f"processes: {processes}\n")
    config = load_worker(path)
    plan = thread_plan(config)
    specs = model_specs(config, plan)
    engines = engines_of(config, plan)
    if engines is not None:
        specs = in_engines(specs, engines, processes=processes)
        engines.stop()
    (lane,) = [spec.lane(decoders=1) for spec in specs]
    assert lane.may_be_led is not bool(processes)


def test_a_frame_that_expires_while_it_is_decoded_by_who_brought_it_is_not_run(tmp_path: Path) -> None:
    now, detector = [1_000 * MS], GatedDetector()
    with service(
        tmp_path,
        codecs={"raw": Slow(now, 60 * MS)},
        build=lambda: detector,
        clock=lambda: now[0],
        timer=False,
    ) as (made, _):
        eventually(lambda: asleep(made), what="an instance without work")
        bringer = Bringer(made, now_us=lambda: now[0])
        bringer.led(1, budget_us=50 * MS)()
        assert bringer.peer.only(Reject).reason is RejectReason.EXPIRED
        assert detector.runs == 0
        bringer.led(2, budget_us=70 * MS)()
        assert bringer.peer.only(Result).seq == 2
        assert made.backlog.drain(0), "nothing is left in work"


def test_the_time_of_a_led_frame_is_known_to_the_forecast_and_to_what_later_ones_are_expected_to_take(
    tmp_path: Path,
) -> None:
    detector = GatedDetector()
    with service(tmp_path, build=lambda: detector, decode_threads=0) as (made, _):
        made.backlog.work.ready(MODEL, change=0, seen=[(1, 20 * MS)] * 20)
        eventually(lambda: asleep(made), what="an instance without work")
        greedy, modest = Bringer(made, "greedy"), Bringer(made, "modest")
        detector.gate.clear()
        run = greedy.led(1)
        assert not run.quick
        leading = threading.Thread(target=run)
        leading.start()
        eventually(detector.running.is_set, what="the run")
        assert running(made).ticket is None, "it never waited"
        for seq in (2, 3, 4):
            assert greedy.frame(seq) is None, "the model is not free"
        modest.session.receive(Ping(nonce=1, sent_mono_us=0), clock_us())
        load = modest.peer.only(Pong).load
        assert 20 * MS <= load.queue_us < 60 * MS, "behind the led one and a share, not behind all of them"
        assert modest.frame(1) is None
        detector.gate.set()
        leading.join(10.0)
        greedy.peer.wait(Result, 4)
        modest.peer.wait(Result, 1)
        assert made.backlog.lanes[MODEL].frames.p50_us > 0
        assert made.backlog.waiting() == (0, 0)


def test_when_an_engine_breaks_under_a_led_frame_what_cannot_wait_for_the_next_one_is_told(
    tmp_path: Path,
) -> None:
    now, built = [1_000 * MS], []

    def build() -> GatedDetector:
        now[0] += 1_000 * MS
        built.append(GatedDetector())
        return built[-1]

    with service(tmp_path, build=build, clock=lambda: now[0], timer=False, decode_threads=0) as (made, _):
        eventually(lambda: asleep(made), what="an instance without work")
        bringer = Bringer(made, now_us=lambda: now[0])
        built[0].gate.clear()
        leading = threading.Thread(target=bringer.led(1))
        leading.start()
        eventually(built[0].running.is_set, what="the run")
        assert bringer.frame(2, budget_us=500 * MS) is None
        assert bringer.frame(3, budget_us=60_000 * MS) is None
        built[0].fail = RuntimeError("the engine is gone")
        built[0].gate.set()
        leading.join(10.0)
        failed, lost = bringer.peer.wait(Reject, 2)
        assert (failed.seq, failed.reason) == (1, RejectReason.FAILED)
        assert (lost.seq, lost.reason) == (2, RejectReason.NO_MODEL)
        assert [result.seq for result in bringer.peer.wait(Result, 1)] == [3], (
            "there was time for the next engine"
        )
        assert len(built) == 2
