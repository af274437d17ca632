"""What one frame's way to the worker and back costs beside the bare library's: the transport and the house.

Ours: `Link.send` of head and body until the link delivers the result — Hello, admission, queue, decode, detect,
reply, record store, with a codec and a detector that cost nothing. Floor: the same bytes to a bare peer in the same
number of messages (`tests/bench/floors.py`); over gRPC also in two, reported and not judged. For both the clock
starts with the payload in hand. Two processes on loopback, one frame in flight, floor and ours in turn; the ratio is
taken pair by pair, so that what else the machine does meanwhile weighs on both.
"""

import argparse
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from edge.links.base import Connected, Dropped, Link, LinkEvent, Received, Refused, Sent
from edge.links.kinds import LINKS
from pipelines.frame import Encoding, new_run
from pipelines.runtime import monotonic_us, tune
from pipelines.windows import quantile
from protos.wire.live import FrameBody, FrameHead, Reject, Result
from protos.wire.session import Error, Hello, Lane, StreamInfo
from tests.bench.floors import FLOORS
from tests.bench.null_worker import CODEC
from tests.bench.report import Report, run

BARS = {"zmq": 2.0, "grpc": 1.5}
JUDGED_BYTES = 150_000
SIZES_BYTES = (30_000, JUDGED_BYTES, 900_000)
PAIRS, QUICK_PAIRS = 15, 9
FRAMES, QUICK_FRAMES = 400, 150
WARM_UP_FRAMES = 150
REPLY_WITHIN_S = 10.0


class OurLink:
    """A link as the agent uses it; `call` returns µs from `send` until the link delivers the result."""

    def __init__(self, kind: str, address: str) -> None:
        self._welcomed = threading.Event()
        self._delivered = threading.Lock()  # released once per frame
        self._delivered.acquire()
        self._arrived_ns = 0
        self._wrong: object = None
        self._seq = 0
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
        begun_ns = time.perf_counter_ns()
        self._seq += 1
        encoding = Encoding(codec=CODEC, quality=50, width_px=64, height_px=48, body_bytes=len(body))
        frame_head = FrameHead(
            stream=0,
            seq=self._seq,
            worker_budget_us=5_000_000,
            sent_mono_us=monotonic_us(),
            encoding=encoding,
            source_width_px=640,
            source_height_px=480,
        )
        frame_body = FrameBody(stream=0, seq=self._seq, data=body)
        sent = self._link.send(frame_head, frame_body)
        if sent is not Sent.ACCEPTED or not self._delivered.acquire(timeout=REPLY_WITHIN_S) or self._wrong:
            raise RuntimeError(f"frame {self._seq} was not answered: {sent}, {self._wrong}")
        return (self._arrived_ns - begun_ns) / 1000

    def close(self) -> None:
        self._link.close()

    def _deliver(self, event: LinkEvent) -> None:
        match event:
            case Received(message=Result() as result):
                self._arrived_ns = time.perf_counter_ns()
                if result.seq != self._seq or len(result.detections) != 2:
                    self._wrong = result
                self._delivered.release()
            case Received(message=Reject() | Error()) | Dropped() | Refused():
                self._wrong = event
                self._delivered.release()
            case Connected(lane=Lane.LIVE):
                self._welcomed.set()


@contextmanager
def child(*arguments: str) -> Iterator[str]:
    """A process that prints its address first and serves until its stdin closes."""
    process = subprocess.Popen(
        [sys.executable, "-m", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


@contextmanager
def floor_client(kind: str) -> Iterator[Callable[[bytes], float]]:
    with child("tests.bench.floors", kind.partition(" ")[0]) as port:
        floor = FLOORS[kind](int(port))

        def call(body: bytes) -> float:
            begun_ns = time.perf_counter_ns()
            floor.call(body)
            return (time.perf_counter_ns() - begun_ns) / 1000

        try:
            yield call
        finally:
            floor.close()


@contextmanager
def our_client(kind: str) -> Iterator[Callable[[bytes], float]]:
    with child("tests.bench.null_worker", kind) as address:
        link = OurLink(kind, address)
        try:
            yield link.call
        finally:
            link.close()


def round_us(call: Callable[[bytes], float], body: bytes, frames: int) -> list[float]:
    return sorted(call(body) for _ in range(frames))


def compare(kind: str, *, pairs: int, frames: int) -> dict[str, Any]:
    """p50 and p99 in µs of the floors and ours by size, and the median of the pairs' ratios of p50 to each floor."""
    out: dict[str, Any] = {}
    names = {name: "floor" if name == kind else "floor_" + name.partition(" ")[2] for name in FLOORS}
    with ExitStack() as stack:
        calls = {
            words: stack.enter_context(floor_client(name))
            for name, words in names.items()
            if name.partition(" ")[0] == kind
        }
        calls["ours"] = stack.enter_context(our_client(kind))
        for size_bytes in SIZES_BYTES:
            body = os.urandom(size_bytes)
            for call in calls.values():
                round_us(call, body, WARM_UP_FRAMES)
            seen: dict[str, list[float]] = {f"{name}_{q}": [] for name in calls for q in ("p50", "p99")}
            ratios: dict[str, list[float]] = {name: [] for name in calls if name != "ours"}
            for _ in range(pairs):
                for name, call in calls.items():
                    took_us = round_us(call, body, frames)
                    seen[f"{name}_p50"].append(quantile(took_us, 0.5))
                    seen[f"{name}_p99"].append(quantile(took_us, 0.99))
                for name, found in ratios.items():
                    found.append(seen["ours_p50"][-1] / seen[f"{name}_p50"][-1])
            out[f"{size_bytes // 1000} kB"] = {
                **{f"{name}_us": round(quantile(sorted(values), 0.5), 1) for name, values in seen.items()},
                **{
                    name.replace("floor", "ratio"): round(quantile(sorted(found), 0.5), 3)
                    for name, found in ratios.items()
                },
                "ratios": [round(ratio, 2) for ratio in sorted(ratios["floor"])],
            }
    return out


def measure(report: Report, arguments: argparse.Namespace) -> None:
    """Round trip over loopback against the bare library, by payload size."""
    tune()
    pairs, frames = (QUICK_PAIRS, QUICK_FRAMES) if arguments.quick else (PAIRS, FRAMES)
    for kind, bar in BARS.items():
        report.figures[kind] = compare(kind, pairs=pairs, frames=frames)
        judged = report.figures[kind][f"{JUDGED_BYTES // 1000} kB"]
        report.at_most(f"{kind}: p50 of {JUDGED_BYTES // 1000} kB / bare library", bar, judged["ratio"])


if __name__ == "__main__":
    run("transport", measure)
