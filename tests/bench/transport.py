"""What one frame's way to the worker and back costs beside the bare library's: the transport and the house.

Ours: `Link.send` of head and body until the link delivers the result — Hello, admission, queue, decode, detect,
reply, record store, with a codec and a detector that cost nothing. Floor: the same bytes to a bare peer in the same
number of messages (`tests/bench/floors.py`); also in two, and over a bare socket, reported and not judged. For all the
clock starts with the payload in hand. Two processes on loopback, floor and ours in turn, one frame on its way and
then eight; the ratio is taken pair by pair, so that what else the machine does meanwhile weighs on both.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol

from pipelines.runtime import tune
from pipelines.windows import quantile
from tests.bench.floors import FLOORS, Floor
from tests.bench.link_client import LinkClient
from tests.bench.report import Report, run

CLOSED_LOOP_BARS = {"zmq": {30_000: 2.0, 150_000: 1.6}, "grpc": {150_000: 1.3}}
"""Most that a round trip may take, over the floor's, by payload size."""
WINDOW_BAR = 0.85
"""Least throughput, over the floor's, at the same sizes."""
WINDOW = 8
SIZES_BYTES = (30_000, 150_000, 900_000)
PAIRS, QUICK_PAIRS = 15, 9
FRAMES, QUICK_FRAMES = 300, 100
WARM_UP_FRAMES = 100
_BEST = 1 / 3


class Client(Protocol):
    """One that sends frames and has them answered, ours or a floor."""

    def call(self, body: bytes) -> float:
        """µs of one round trip."""
        ...

    def flow(self, body: bytes, *, frames: int, window: int) -> float:
        """Frames per second with `window` on their way."""
        ...


class FloorClient:
    """The same measures of a bare peer."""

    def __init__(self, floor: Floor) -> None:
        self._floor = floor

    def call(self, body: bytes) -> float:
        begun_ns = time.perf_counter_ns()
        self._floor.send(body)
        self._floor.receive(body)
        return (time.perf_counter_ns() - begun_ns) / 1000

    def flow(self, body: bytes, *, frames: int, window: int) -> float:
        begun_ns = time.perf_counter_ns()
        for number in range(frames + window):
            if number >= window:
                self._floor.receive(body)
            if number < frames:
                self._floor.send(body)
        return frames * 1e9 / (time.perf_counter_ns() - begun_ns)


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
def floor_client(name: str) -> Iterator[FloorClient]:
    with child("tests.bench.floors", name.partition(" ")[0]) as port:
        floor = FLOORS[name](int(port))
        try:
            yield FloorClient(floor)
        finally:
            floor.close()


@contextmanager
def our_client(kind: str) -> Iterator[LinkClient]:
    with child("tests.bench.null_worker", kind) as address:
        client = LinkClient(kind, address)
        try:
            yield client
        finally:
            client.close()


def compare(kind: str, *, pairs: int, frames: int) -> dict[str, Any]:
    """What floors and ours took by size, and the ratios to each floor, pair by pair."""
    out: dict[str, Any] = {}
    with ExitStack() as stack:
        clients: dict[str, Client] = {
            _words(name, kind): stack.enter_context(floor_client(name))
            for name in FLOORS
            if name == "tcp" or name.partition(" ")[0] == kind
        }
        clients["ours"] = stack.enter_context(our_client(kind))
        for size_bytes in SIZES_BYTES:
            body = os.urandom(size_bytes)
            for client in clients.values():
                _round(client, body, WARM_UP_FRAMES)
            rounds = [
                {name: _round(client, body, frames) for name, client in clients.items()} for _ in range(pairs)
            ]
            out[f"{size_bytes // 1000} kB"] = _figures(rounds)
    return out


def _words(name: str, kind: str) -> str:
    return "floor" if name == kind else "floor_" + name.rpartition(" ")[2]


def _round(client: Client, body: bytes, frames: int) -> dict[str, float]:
    took_us = sorted(client.call(body) for _ in range(frames))
    per_s = client.flow(body, frames=frames, window=WINDOW)
    return {"p50_us": quantile(took_us, 0.5), "p99_us": quantile(took_us, 0.99), "window_per_s": per_s}


def _figures(rounds: list[dict[str, dict[str, float]]]) -> dict[str, Any]:
    """Medians over the rounds; of the ratios also those of the best third, when the machine had least else to do."""
    out: dict[str, Any] = {}
    for name, measured in rounds[0].items():
        for what in measured:
            out[f"{name}_{what}"] = round(_median([each[name][what] for each in rounds]), 1)
    for name in rounds[0]:
        if name == "ours":
            continue
        for what, ratio in (("p50_us", "ratio"), ("window_per_s", "window_ratio")):
            found = sorted(each["ours"][what] / each[name][what] for each in rounds)
            out[name.replace("floor", ratio)] = round(_median(found), 3)
            if name == "floor":
                best = 1 - _BEST / 2 if what == "window_per_s" else _BEST / 2
                out[f"{ratio}_best_third"] = round(quantile(found, best), 3)
                out[f"{ratio}s"] = [round(value, 2) for value in found]
    return out


def _median(values: list[float]) -> float:
    return quantile(sorted(values), 0.5)


def measure(report: Report, arguments: argparse.Namespace) -> None:
    """Round trip and throughput over loopback against the bare library, by payload size."""
    if arguments.peers:
        from tests.bench.peers.comparison import compare as compare_peers  # noqa: PLC0415 - no floor needs it

        compare_peers(report, arguments)
        return
    tune()
    pairs, frames = (QUICK_PAIRS, QUICK_FRAMES) if arguments.quick else (PAIRS, FRAMES)
    for kind, bars in CLOSED_LOOP_BARS.items():
        report.figures[kind] = compare(kind, pairs=pairs, frames=frames)
        for size_bytes, bar in bars.items():
            size = f"{size_bytes // 1000} kB"
            judged = report.figures[kind][size]
            report.at_most(f"{kind}: p50 of {size} / bare library", bar, judged["ratio"])
            report.at_least(
                f"{kind}: frames/s of {size}, {WINDOW} on their way / bare library",
                WINDOW_BAR,
                judged["window_ratio"],
            )


if __name__ == "__main__":
    run(
        "transport",
        measure,
        peers="beside other ways to carry a frame (tests/bench/peers), instead of the bare libraries",
        install="with --peers: make the environments of peers that are not installed, first",
    )
