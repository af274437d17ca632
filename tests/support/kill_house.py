"""An outbox and a record store in processes that are forked in a moment and killed in another, with nothing else around.

The agent's process gives answers the whole time: it sends each frame far, and answers near what is not answered after
`HEDGE_S`. It tells every answer to a pipe: near ones once the outbox has committed them, as sinks are told; far ones at
once. Whoever holds the other end of the pipe is the independent sink. Fork only from a process without threads.
"""

import contextlib
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from cloud.listeners.kinds import LISTENERS
from edge.links.base import Connected, Disconnected, Link, LinkEvent, Received, Sent
from edge.links.kinds import LINKS
from edge.outbox.file.sqlite import SqliteOutbox
from edge.outbox.sending.payload_uplink import Message
from edge.outbox.writer import OutboxWriter
from pipelines.frame import Encoding, FrameId, new_run
from pipelines.result import AnsweredBy, Priority, Record, Status
from pipelines.runtime import monotonic_us
from protos.wire.bulk import Ack
from protos.wire.live import FrameBody, FrameHead, Result
from protos.wire.session import Hello, Lane, StreamInfo
from tests.bench.null_worker import CODEC, serving
from tests.support.rig import free_port

AGENT = "gateway"
STREAM = "door"
EVERY_S = 0.004
HEDGE_S = 0.02
SEEN = {AnsweredBy.NEAR: b"n", AnsweredBy.FAR: b"f"}

Identity = tuple[str, str, int]


class _Agent:
    """As much of an agent as the outbox knows."""

    def __init__(self, folder: Path, url: str, pipe: int) -> None:
        self.run = new_run()
        self._pipe = pipe
        self._lock = threading.Lock()
        self._open: dict[int, float] = {}
        self._connected = False
        self.link: Link = LINKS[url.partition("://")[0]].resolve()(name="k", url=url, clock_us=monotonic_us)
        self.writer = OutboxWriter(
            store=SqliteOutbox(folder / "outbox.db"),
            agent=AGENT,
            run=self.run,
            clock_us=monotonic_us,
            on_committed=lambda frame_id: self._tell(AnsweredBy.NEAR, frame_id),
            send=self._send,
        )

    def start(self) -> None:
        self.writer.start()
        self.writer.reserve_now([STREAM])
        streams = (StreamInfo(name=STREAM, width_px=64, height_px=48),)
        self.link.start(Hello(agent=AGENT, run=self.run, lane=Lane.LIVE, streams=streams), self._happened)

    def frame(self, seq: int) -> None:
        self.writer.captured(STREAM, seq)
        with self._lock:
            self._open[seq] = time.monotonic()
        data = bytes(200)
        encoding = Encoding(codec=CODEC, quality=1, width_px=64, height_px=48, body_bytes=len(data))
        head = FrameHead(
            stream=0, seq=seq, worker_budget_us=1_000_000, sent_mono_us=monotonic_us(), encoding=encoding
        )
        if (
            not self._connected
            or self.link.send(head, FrameBody(stream=0, seq=seq, data=data)) is not Sent.ACCEPTED
        ):
            self._near(seq)

    def hedge(self, *, all_of_them: bool = False) -> None:
        before = time.monotonic() - (0 if all_of_them else HEDGE_S)
        with self._lock:
            late = [seq for seq, at_s in self._open.items() if at_s <= before]
        for seq in late:
            self._near(seq)

    def _near(self, seq: int) -> None:
        if self._take(seq):
            self.writer.append(self._record(seq, AnsweredBy.NEAR))
            self.writer.settled(STREAM, seq)

    def _far(self, result: Result) -> None:
        if self._take(result.seq):
            record = self._record(result.seq, AnsweredBy.FAR)
            self._tell(AnsweredBy.FAR, record.id)
            self.writer.far_answered(record)
            self.writer.settled(STREAM, result.seq)
        else:
            self.writer.late_far(FrameId(AGENT, self.run, STREAM, result.seq))

    def _take(self, seq: int) -> bool:
        with self._lock:
            return self._open.pop(seq, None) is not None

    def _record(self, seq: int, by: AnsweredBy) -> Record:
        return Record(
            id=FrameId(AGENT, self.run, STREAM, seq),
            answered_by=by,
            status=Status.OK,
            latency_us=20_000,
            on_time=True,
            priority=tuple(Priority)[seq % 3],
        )

    def _tell(self, by: AnsweredBy, frame_id: FrameId) -> None:
        # One write of less than PIPE_BUF: there whole or not at all.
        os.write(self._pipe, b"%s %s %d\n" % (SEEN[by], frame_id.run.hex().encode(), frame_id.seq))

    def _send(self, message: Message) -> Sent:
        return self.link.send(message, lane=Lane.BULK)

    def _happened(self, event: LinkEvent) -> None:
        match event:
            case Connected(lane=Lane.LIVE):
                self._connected = True
            case Disconnected(lane=Lane.LIVE):
                self._connected = False
            case Connected(lane=Lane.BULK):
                self.writer.reachable(connected=True, limits=event.welcome.limits)
            case Disconnected(lane=Lane.BULK):
                self.writer.reachable(connected=False)
            case Received(message=Result() as result):
                self._far(result)
            case Received(lane=Lane.BULK, message=Ack() as ack):
                self.writer.acked_bulk(ack)
            case Received(lane=Lane.LIVE, message=Ack() as ack):
                self.writer.acked_live(ack)
            case _:
                pass

    def close(self) -> bool:
        self.link.close()
        return self.writer.stop(10_000_000)


def _agent(folder: Path, url: str, pipe: int, *, drain_s: float) -> bool:
    """Gives answers for ever; with `drain_s` none, but what is kept goes up. Whether all went well."""
    agent = _Agent(folder, url, pipe)
    agent.start()
    seq = 0
    while not drain_s:
        seq += 1
        agent.frame(seq)
        agent.hedge()
        time.sleep(EVERY_S)
    end_s = time.monotonic() + drain_s
    agent.writer.flush()
    while not (gone := agent.writer.empty()) and time.monotonic() < end_s:
        agent.writer.observe_live(in_flight_bytes=0, over_budget=True, bytes_per_s=1e9, queueing_us=0)
        agent.writer.flush()
        time.sleep(0.02)
    return agent.close() and gone


def _cloud(folder: Path, address: str) -> bool:
    with serving("zmq", folder, address=address):
        signal.pause()
    return True


def fork(work: Callable[[], bool]) -> int:
    """The id of a new process that does `work` and ends."""
    pid = os.fork()
    if not pid:
        _end(work)
    return pid


def _end(work: Callable[[], bool]) -> NoReturn:
    code = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        code = 0 if work() else 3
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


@dataclass(slots=True)
class KillHouse:
    """`seen` is what the independent sink saw, in its order."""

    root: Path
    port: int
    seen: list[tuple[bytes, Identity]]
    agent_pid: int = 0
    cloud_pid: int = 0
    _pipe: int = -1

    @property
    def outbox(self) -> Path:
        return self.root / "gateway" / "outbox.db"

    @property
    def records_url(self) -> str:
        return f"sqlite:///{self.root}/cloud/records.db"

    def start_cloud(self) -> None:
        folder = self.root / "cloud"
        folder.mkdir(exist_ok=True)
        self.cloud_pid = fork(lambda: _cloud(folder, f"127.0.0.1:{self.port}"))

    def start_agent(self, *, drain_s: float = 0.0) -> None:
        reading, writing = os.pipe()
        url = f"zmq://127.0.0.1:{self.port}"

        def work() -> bool:
            os.close(reading)
            return _agent(self.root / "gateway", url, writing, drain_s=drain_s)

        self.agent_pid = fork(work)
        os.close(writing)
        self._pipe = reading

    def kill_cloud(self) -> None:
        self.cloud_pid = _killed(self.cloud_pid)

    def kill_agent(self) -> None:
        self.agent_pid = _killed(self.agent_pid)
        self.read()

    def finish_agent(self) -> bool:
        """Wait for an agent that drains; whether everything went up."""
        _, status = os.waitpid(self.agent_pid, 0)
        self.agent_pid = 0
        self.read()
        return os.waitstatus_to_exitcode(status) == 0

    def wait(self, seconds: float) -> None:
        """Let it go on, reading what it says so that it never has to wait."""
        end_s = time.monotonic() + seconds
        while (left_s := end_s - time.monotonic()) > 0:
            time.sleep(min(left_s, 0.05))
            self.read(block=False)

    def read(self, *, block: bool = True) -> None:
        os.set_blocking(self._pipe, block)
        text = b""
        with contextlib.suppress(BlockingIOError):
            while part := os.read(self._pipe, 1 << 16):
                text += part
            os.close(self._pipe)  # its writer is gone
        for line in text.splitlines():
            by, run, seq = line.split()
            self.seen.append((by, (run.decode(), STREAM, int(seq))))


def _killed(pid: int) -> int:
    if pid:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return 0


@contextlib.contextmanager
def kill_house(root: Path) -> Iterator[KillHouse]:
    LINKS["zmq"].resolve()  # imported once, before anything is forked
    LISTENERS["zmq"].resolve()
    house = KillHouse(root, free_port(), [])
    try:
        yield house
    finally:
        for pid in (house.agent_pid, house.cloud_pid):
            _killed(pid)
