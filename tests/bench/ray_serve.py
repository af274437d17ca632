"""What Ray Serve's ingress adds to a frame's way to the worker and back: `python -m tests.bench.ray_serve`.

The same worker (a synthetic detector without delay, JPEG of the size wanted) behind our own gRPC listener and behind
Serve, with Serve's default proxy and with its fast path (HAProxy and direct ingress); one frame in flight, all of
them in turn within one run. Loopback, and on Serve's side two more processes: on few cores much of it is waiting for
a turn.
"""

import argparse
import json
import os
import secrets
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import cv2
import numpy as np

from edge.links.base import Connected, Dropped, Link, LinkEvent, Received, Refused, Sent
from edge.links.kinds import LINKS
from pipelines.frame import Encoding, new_run
from pipelines.runtime import monotonic_us, tune
from pipelines.windows import quantile
from protos.wire.live import FrameBody, FrameHead, Reject, Result
from protos.wire.session import Error, Hello, Lane, StreamInfo
from tests.bench.report import Report, run
from tests.support.ray_house import service_port

SIZES_BYTES = (30_000, 150_000)
ROUNDS, QUICK_ROUNDS = 9, 3
FRAMES, QUICK_FRAMES = 200, 60
START_WITHIN_S = 120.0
FAST = {"RAY_SERVE_ENABLE_HA_PROXY": "1", "RAY_SERVE_THROUGHPUT_OPTIMIZED": "1"}
WAYS: dict[str, dict[str, str] | None] = {"plain gRPC": None, "Serve": {}, "Serve, fast path": FAST}
WORKER = """\
version: 1
state_dir: {root}
listen: {{grpc: {{address: "0.0.0.0:{port}", insecure: true}}}}
models: {{thing: {{detector: {{kind: synthetic, delay: 0ms, labels: [thing]}}}}}}
ray: {{cpus: 0.1, ingress: head}}
drain: 2s
"""


def picture_of(size_bytes: int) -> tuple[bytes, Encoding]:
    """A JPEG of noise, brought to the size wanted by comments, which cost a decoder nothing."""
    pixels = np.random.default_rng(1).integers(0, 255, (120, 160, 3), np.uint8)
    done, data = cv2.imencode(".jpg", pixels, (cv2.IMWRITE_JPEG_QUALITY, 80))
    assert done
    body = data.tobytes()
    while (left := size_bytes - len(body)) >= 4:
        room = min(left - 4, 60_000)
        body = body[:2] + b"\xff\xfe" + (room + 2).to_bytes(2, "big") + bytes(room) + body[2:]
    return body, Encoding(codec="jpeg", quality=80, width_px=160, height_px=120, body_bytes=len(body))


class Caller:
    """A link as the agent uses it; `call` returns µs from `send` until the result is delivered."""

    def __init__(self, url: str) -> None:
        self._welcomed = threading.Event()
        self._came: SimpleQueue[tuple[LinkEvent, int]] = SimpleQueue()
        self._seq = 0
        self._link: Link = LINKS["grpc"].resolve()(name="bench", url=url, clock_us=monotonic_us)
        streams = (StreamInfo(name="cam", width_px=160, height_px=120),)
        hello = Hello(agent="bench", run=new_run(), lane=Lane.LIVE, streams=streams)
        self._link.start(hello, self._deliver)
        if not self._welcomed.wait(30.0):
            raise TimeoutError(f"no Welcome from {url}")

    def _deliver(self, event: LinkEvent) -> None:
        match event:
            case Received(message=Result() | Reject() | Error()) | Dropped() | Refused():
                self._came.put((event, time.perf_counter_ns()))
            case Connected(lane=Lane.LIVE):
                self._welcomed.set()

    def call(self, body: bytes, encoding: Encoding) -> float:
        self._seq += 1
        begun_ns = time.perf_counter_ns()
        head = FrameHead(
            stream=0,
            seq=self._seq,
            worker_budget_us=5_000_000,
            sent_mono_us=monotonic_us(),
            encoding=encoding,
            source_width_px=160,
            source_height_px=120,
        )
        sent = self._link.send(head, FrameBody(stream=0, seq=self._seq, data=body))
        event, arrived_ns = self._came.get(timeout=10.0) if sent is Sent.ACCEPTED else (None, 0)
        result = event.message if isinstance(event, Received) else None
        if not isinstance(result, Result) or result.seq != self._seq:
            raise RuntimeError(f"frame {self._seq}: {sent}, {event}")
        return (arrived_ns - begun_ns) / 1000

    def close(self) -> None:
        self._link.close()


@contextmanager
def worker(extra: dict[str, str] | None) -> Iterator[str]:
    """Its URL. `extra`: the environment of Serve; None: a worker of its own."""
    with tempfile.TemporaryDirectory() as root:
        path = Path(root) / "worker.yaml"
        path.write_text(WORKER.format(root=root, port=service_port()))
        command = [sys.executable, "-m", "nearfar", "cloud", str(path)]
        environment = {k: v for k, v in os.environ.items() if k != "RAY_ADDRESS"}
        if extra is not None:
            command += ["--deploy", "ray"]
            environment |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(16), **extra}
        with (Path(root) / "log").open("w") as log:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=environment)
        assert process.stdout is not None
        try:
            readable, _, _ = select.select([process.stdout], [], [], START_WITHIN_S)
            line = process.stdout.readline() if readable else b""
            if not line:
                raise RuntimeError((Path(root) / "log").read_text()[-3000:])
            yield str(json.loads(line)["grpc"]).replace("0.0.0.0", "127.0.0.1")  # noqa: S104 - it is replaced
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()


def measure(report: Report, arguments: argparse.Namespace) -> None:
    """Round trip through our own gRPC listener and through Ray Serve's ingress, by payload size."""
    tune()
    rounds, frames = (QUICK_ROUNDS, QUICK_FRAMES) if arguments.quick else (ROUNDS, FRAMES)
    with ExitStack() as stack:
        callers: dict[str, Caller] = {}
        for name, extra in WAYS.items():
            callers[name] = Caller(stack.enter_context(worker(extra)))
            stack.callback(callers[name].close)
        for size_bytes in SIZES_BYTES:
            body, encoding = picture_of(size_bytes)
            took_us: dict[str, list[float]] = {name: [] for name in callers}
            for caller in callers.values():
                for _ in range(frames):
                    caller.call(body, encoding)
            for _ in range(rounds):
                for name, caller in callers.items():
                    took_us[name] += [caller.call(body, encoding) for _ in range(frames)]
            report.figures[f"{size_bytes // 1000} kB"] = figures(took_us)


def figures(took_us: dict[str, list[float]]) -> dict[str, Any]:
    """ms, and what each way adds to the p50 of our own listener."""
    out: dict[str, Any] = {}
    for name, values in took_us.items():
        ordered = sorted(values)
        out[name] = {
            "p50_ms": round(quantile(ordered, 0.5) / 1000, 2),
            "p99_ms": round(quantile(ordered, 0.99) / 1000, 2),
        }
    own = out["plain gRPC"]
    for name in took_us:
        if name != "plain gRPC":
            out[name]["adds_p50_ms"] = round(out[name]["p50_ms"] - own["p50_ms"], 2)
    return out


if __name__ == "__main__":
    run("ray_serve", measure)
