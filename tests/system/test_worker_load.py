"""A whole `nearfar cloud` under load and under bombs, over every listener: what its agents may rely on then."""

import itertools
import signal
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread

import numpy as np
import pytest
import zstandard

from cloud.listeners.kinds import LISTENERS
from cloud.store.records import open_store
from pipelines.codecs.jpeg import JpegCodec
from pipelines.frame import Encoding
from protos.wire.bulk import BulkBatch
from protos.wire.live import Reject, Result
from protos.wire.session import Error, Lane, Ping, Pong, RejectReason
from tests.support.agents import HELLO, Agent, GrpcSpeaker, agent, frame, greet
from tests.support.eventually import eventually
from tests.support.exposition import read_samples
from tests.support.workers import WorkerProcess

KINDS = [kind.name for kind in LISTENERS]
BOMB_BYTES = 400 << 20
MOST_GROWTH_BYTES = 100 << 20  # a quarter of the bomb: threads, caches and a store that warm up are within
AGENTS = 8
WINDOW = 8
BUDGET_US = 60_000_000  # on a busy machine too, only the stop rejects

Start = Callable[..., WorkerProcess]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a worker with every listener; it is ended with the test."""
    started: list[WorkerProcess] = []

    def made(*, delay: str = "10ms", sets: tuple[str, ...] = ()) -> WorkerProcess:
        every = ("listen.grpc.address='127.0.0.1:0'", *sets)
        started.append(WorkerProcess(tmp_path / "worker", delay=delay, sets=every))
        return started[-1]

    yield made
    for worker in started:
        worker.kill()


def samples(worker: WorkerProcess) -> dict[str, float]:
    with urllib.request.urlopen(worker.ready["http"] + "/metrics", timeout=5) as page:  # noqa: S310 - our own worker's
        return read_samples(page.read().decode())


def a_picture() -> tuple[bytes, Encoding]:
    return JpegCodec().encode(np.full((48, 64, 3), 90, np.uint8), quality=80)


# -- F10 ------------------------------------------------------------------------------------------------------


def test_bombs_of_400_mb_are_refused_before_they_are_allocated_and_the_connection_serves_on(
    kind: str, start: Start
) -> None:
    """F10, on the live lane: one that says what it is, and one that lies about it."""
    worker = start()
    bomb = zstandard.ZstdCompressor(level=1).compress(bytes(BOMB_BYTES))
    huge = Encoding(
        codec="zstd", quality=0, width_px=20_000, height_px=10_485, channels=1, bits=16, body_bytes=len(bomb)
    )
    with agent(str(worker.ready[kind])) as gateway:
        greet(gateway)
        data, encoding = a_picture()
        gateway.send(*_frame(1, data, encoding))
        assert gateway.until(Result).seq == 1
        before_bytes = peak_bytes(worker)
        gateway.send(*_frame(2, bomb, huge))
        assert gateway.until(Reject).reason is RejectReason.TOO_LARGE
        gateway.send(*_frame(3, bomb, replace(huge, width_px=128, height_px=96)))
        assert gateway.until(Reject).reason is RejectReason.BAD_PAYLOAD
        gateway.send(*_frame(4, data, encoding))
        assert gateway.until(Result).seq == 4
    assert peak_bytes(worker) - before_bytes < MOST_GROWTH_BYTES
    seen = samples(worker)
    assert seen['nearfar_worker_rejects_total{reason="too_large"}'] == 1
    assert seen['nearfar_worker_rejects_total{reason="bad_payload"}'] == 1


def test_a_batch_that_is_a_bomb_is_refused_before_it_is_allocated_and_the_lane_serves_on(
    kind: str, start: Start
) -> None:
    """F10, on the bulk lane: one that says what it is, and one that lies about it."""
    worker = start()
    bomb = zstandard.ZstdCompressor(level=1).compress(bytes(BOMB_BYTES))
    with agent(str(worker.ready[kind])) as gateway:
        if kind == "grpc":
            gateway.speaker.close()
            gateway.speaker = GrpcSpeaker(str(worker.ready[kind]), Lane.BULK)
        greet(gateway, replace(HELLO, lane=Lane.BULK))
        before_bytes = peak_bytes(worker)
        for number, stated_bytes in enumerate((BOMB_BYTES, 1000), 1):
            gateway.send(BulkBatch(batch=number, records_zstd=bomb, records_bytes=stated_bytes))
            refused = gateway.until(Error)
            assert refused.reason is RejectReason.BAD_PAYLOAD
            assert f"batch {number}" in refused.text
        gateway.send(Ping(nonce=9, sent_mono_us=0))
        assert gateway.until(Pong).nonce == 9
    assert peak_bytes(worker) - before_bytes < MOST_GROWTH_BYTES
    assert samples(worker)['nearfar_worker_bulk_batches_total{outcome="refused"}'] == 2


def peak_bytes(worker: WorkerProcess) -> int:
    """The most memory it ever had."""
    status = Path(f"/proc/{worker.process.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) << 10


def _frame(seq: int, data: bytes, encoding: Encoding, *, budget_us: int = 5_000_000):
    head, body = frame(seq, data)
    return replace(head, encoding=encoding, worker_budget_us=budget_us), body


# -- F22 ------------------------------------------------------------------------------------------------------


@pytest.mark.alone
def test_while_a_long_inference_runs_what_waits_expires_and_what_cannot_be_in_time_is_refused_at_once(
    kind: str, start: Start
) -> None:
    """F22: a worker that has not run yet knows no service time and lets a frame in; later it says how long the queue
    is."""
    worker = start(delay="1500ms", sets=("models.synthetic.warm_up=0",))
    data, encoding = a_picture()
    with agent(str(worker.ready[kind])) as gateway:
        greet(gateway)
        gateway.send(*_frame(1, data, encoding))
        eventually(lambda: _in_work(worker) == 1, what="the first long run")
        gateway.send(*_frame(2, data, encoding, budget_us=200_000))
        expired = gateway.until(Reject)
        assert (expired.seq, expired.reason) == (2, RejectReason.EXPIRED)
        seen = samples(worker)
        assert seen['nearfar_worker_frames_total{outcome="answered"}'] == 0, "the run ahead of it goes on"
        assert seen["nearfar_worker_queue_frames"] == 0
        assert gateway.until(Result).seq == 1
        gateway.send(*_frame(3, data, encoding))
        nonces = itertools.count(1)
        eventually(lambda: _runs(gateway, next(nonces)), what="the next long run")
        gateway.send(*_frame(4, data, encoding, budget_us=600_000))
        refused = gateway.until(Reject)
        assert (refused.seq, refused.reason) == (4, RejectReason.TOO_LATE)
        assert 0 < refused.queue_us <= 1_600_000
        assert samples(worker)['nearfar_worker_frames_total{outcome="answered"}'] == 1, "the run goes on"


def _in_work(worker: WorkerProcess) -> float:
    """Frames it has begun and not answered."""
    seen = samples(worker)
    begun = seen["nearfar_worker_frames_admitted_total"] - seen["nearfar_worker_queue_frames"]
    return begun - seen['nearfar_worker_frames_total{outcome="answered"}']


def _runs(gateway: Agent, nonce: int) -> bool:
    gateway.send(Ping(nonce=nonce, sent_mono_us=0))
    load = gateway.until(Pong).load
    return load.queue_frames == 0 and load.queue_us > 0


# -- drain ----------------------------------------------------------------------------------------------------


class Sender:
    """One of several agents that send as much as their window lets them; `arrived`: frames a later Pong proves to have
    arrived."""

    def __init__(self, address: str, number: int) -> None:
        self.hello = replace(HELLO, agent=f"gateway-{number}")
        self.results: list[int] = []
        self.rejects: dict[int, RejectReason] = {}
        self.arrived = 0
        self.sent = 0
        self._window = WINDOW
        self._address = address
        self._stop = Event()
        self._thread = Thread(target=self._run)
        self._thread.start()

    def end(self) -> None:
        self._stop.set()
        self._thread.join(20.0)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        data, encoding = a_picture()
        with agent(self._address) as gateway:
            self._window = min(WINDOW, greet(gateway, self.hello).credit.frames)
            while not self._stop.is_set():
                for _ in range(self._window - (self.sent - len(self.results) - len(self.rejects))):
                    self.sent += 1
                    gateway.send(*_frame(self.sent, data, encoding, budget_us=BUDGET_US))
                gateway.send(Ping(nonce=self.sent, sent_mono_us=0))
                try:
                    self._hear(gateway)
                except (AssertionError, StopIteration):  # the worker is gone, and has said all it had to say
                    return

    def _hear(self, gateway: Agent) -> None:
        """Up to the Pong, past what else comes, and at least one answer."""
        answers = 0
        while True:
            message = gateway.receive()
            if isinstance(message, Pong | Result | Reject):
                self._window = min(WINDOW, message.load.window_frames or self._window)
            match message:
                case Pong() as pong:
                    self.arrived = pong.nonce
                    if answers:
                        return
                case Result() as result:
                    self.results.append(result.seq)
                    answers += 1
                case Reject() as reject:
                    self.rejects[reject.seq] = reject.reason
                    answers += 1
            if answers and self.arrived == self.sent:
                return


def test_a_worker_told_to_stop_while_eight_agents_send_answers_all_it_let_in_and_keeps_a_record_of_each_answer(
    kind: str, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.support.agents.WITHIN_S", 2.0)
    worker = start(delay="5ms")
    senders = [Sender(str(worker.ready[kind]), number) for number in range(AGENTS)]
    try:
        eventually(lambda: all(len(s.results) >= 10 for s in senders), 20.0, "a worker at work for everybody")
        worker.process.send_signal(signal.SIGTERM)
        assert worker.process.wait(15.0) == 0
    finally:
        for sender in senders:
            sender.end()
    for sender in senders:
        answered = sorted([*sender.results, *sender.rejects])
        assert len(set(answered)) == len(answered), "no frame is answered twice"
        assert set(range(1, sender.arrived + 1)) <= set(answered), "each that arrived is answered or rejected"
        assert set(sender.rejects.values()) <= {RejectReason.DRAINING}
    assert any(sender.rejects for sender in senders), "they still sent when it stopped"
    with open_store(worker.ready["store"], read_only=True) as store:
        kept = {(i.agent, i.seq) for i in store.identities()}
    assert kept == {(s.hello.agent, seq) for s in senders for seq in s.results}
