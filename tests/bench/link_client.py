"""A link as the agent uses it, for benchmarks: frames whose payload is in hand go up, results come back."""

import queue
import threading
import time

from edge.links.base import Connected, Dropped, Link, LinkEvent, Received, Refused, Sent
from edge.links.kinds import LINKS
from pipelines.frame import Encoding, new_run
from pipelines.runtime import monotonic_us
from protos.wire.live import FrameBody, FrameHead, Reject, Result
from protos.wire.session import Error, Hello, Lane, StreamInfo
from tests.bench.null_worker import CODEC

REPLY_WITHIN_S = 10.0


class LinkClient:
    """Connected once it is made. One thread calls it; RuntimeError when a frame is not answered as it should be."""

    def __init__(self, kind: str, address: str) -> None:
        self._welcomed = threading.Event()
        self._delivered: queue.SimpleQueue[None] = queue.SimpleQueue()  # one for each result
        self._arrived_ns = 0
        self._wrong: object = None
        self._sent = 0
        self._seen: set[int] = set()
        self._link: Link = LINKS[kind].resolve()(
            name="bench", url=f"{kind}://{address}", clock_us=monotonic_us
        )
        hello = Hello(
            agent="bench",
            run=new_run(),
            lane=Lane.LIVE,
            streams=(StreamInfo(name="cam", width_px=640, height_px=480),),
        )
        self._link.start(hello, self._deliver)
        if not self._welcomed.wait(REPLY_WITHIN_S):
            raise TimeoutError(f"no Welcome over {kind}")

    def call(self, body: bytes) -> float:
        """µs from the payload in hand until the link delivers the result."""
        begun_ns = time.perf_counter_ns()
        sent = self._send(body)
        if sent is not Sent.ACCEPTED:
            raise RuntimeError(f"frame {self._sent} was not sent: {sent}")
        self._wait()
        return (self._arrived_ns - begun_ns) / 1000

    def flow(self, body: bytes, *, frames: int, window: int) -> float:
        """Frames per second with `window` of them on their way at any time, all answered once."""
        left, under_way = frames, 0
        begun_ns = time.perf_counter_ns()
        while left or under_way:
            sent = self._send(body) if left and under_way < window else Sent.FULL
            if sent is Sent.ACCEPTED:
                left, under_way = left - 1, under_way + 1
            elif sent is Sent.FULL and under_way:  # the window, or the link below it
                self._wait()
                under_way -= 1
            else:
                raise RuntimeError(f"frame {self._sent + 1} was not sent: {sent}")
        took_s = (time.perf_counter_ns() - begun_ns) / 1e9
        if self._seen:
            raise RuntimeError(f"{len(self._seen)} frames were not answered")
        return frames / took_s

    def close(self) -> None:
        self._link.close()

    def _send(self, body: bytes) -> Sent:
        seq = self._sent + 1
        encoding = Encoding(codec=CODEC, quality=50, width_px=64, height_px=48, body_bytes=len(body))
        head = FrameHead(
            stream=0,
            seq=seq,
            worker_budget_us=5_000_000,
            sent_mono_us=monotonic_us(),
            encoding=encoding,
            source_width_px=640,
            source_height_px=480,
        )
        self._seen.add(seq)
        sent = self._link.send(head, FrameBody(stream=0, seq=seq, data=body))
        if sent is Sent.ACCEPTED:
            self._sent = seq
        else:
            self._seen.discard(seq)
        return sent

    def _wait(self) -> None:
        try:
            self._delivered.get(timeout=REPLY_WITHIN_S)
        except queue.Empty:
            self._wrong = "nothing came"
        if self._wrong:
            raise RuntimeError(f"frame {self._sent} was not answered: {self._wrong}")

    def _deliver(self, event: LinkEvent) -> None:
        match event:
            case Received(message=Result() as result):
                self._arrived_ns = time.perf_counter_ns()
                if result.seq not in self._seen or len(result.detections) != 2:
                    self._wrong = result
                self._seen.discard(result.seq)
                self._delivered.put(None)
            case Received(message=Reject() | Error()) | Dropped() | Refused():
                self._wrong = event
                self._delivered.put(None)
            case Connected(lane=Lane.LIVE):
                self._welcomed.set()
