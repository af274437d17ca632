"""A camera at 30 fps 1080p on one core of the gateway: motion gate, near at 10 fps, nothing shed.

The camera (MJPEG over HTTP) is a process of its own on another core, where there is one. Near is CenterFace when
`make demo` has fetched it to `.assets`, else a timer that costs no CPU. Without a link: what is measured is capture,
gate, near, outbox and run directory. Bars are judged from two seconds after the first frame: opening a camera, FFmpeg
keeps some pictures to look at and then hands them over at once, which are shed as stale.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from tests.bench.camera_feed import PHASE_S
from tests.bench.report import Report, run, summary_ms
from tests.support.eventually import eventually
from tests.support.rig import Process, free_port

FPS = 30
NEAR_FPS = 10
PIPELINE = """\
version: 1
agent: bench
state_dir: {root}/gateway
streams:
  yard:
    source: {{kind: camera, url: "{url}"}}
    gate: {{kind: motion, at_most_every: 100ms, method: {method}}}
near:
  detector: {detector}
scheduler: {{policy: near_only}}
"""
MODEL = Path(".assets/centerface.onnx")
SETTLE_S = 2.0


@contextmanager
def on_core(core: int) -> Iterator[None]:
    """Processes started inside stay on one core for good."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def camera(core: int) -> Iterator[str]:
    """The address of a camera that runs on `core`."""
    with on_core(core):
        feed = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.camera_feed", str(free_port()), str(FPS)],
            stdout=subprocess.PIPE,
            text=True,
        )
    try:
        assert feed.stdout is not None
        yield feed.stdout.readline().strip()
    finally:
        feed.kill()
        feed.wait()
        if feed.stdout is not None:
            feed.stdout.close()


def detector() -> str:
    if MODEL.exists():
        return f"{{kind: centerface, model: {MODEL.resolve()}, input: 192x160}}"
    return "{kind: synthetic, delay: 15ms}"


def watch(root: Path, *, method: str, seconds: float) -> dict[str, Any]:
    """An agent on core 0 for `seconds` after its first frames; lines, summary, CPU share of a core, memory."""
    cores = sorted(os.sched_getaffinity(0))
    with camera(cores[-1]) as url:
        (root / "pipeline.yaml").write_text(
            PIPELINE.format(root=root, url=url, method=method, detector=detector())
        )
        with on_core(cores[0]):
            agent = Process(
                ["edge", str(root / "pipeline.yaml"), "--run-dir", str(root / "run")], root / "agent.log"
            )
        try:
            agent.wait_ready()
            frames = root / "run/frames.jsonl"
            eventually(lambda: frames.exists() and frames.stat().st_size > 0, 20.0, "a first frame")
            time.sleep(SETTLE_S)
            process = psutil.Process(agent.popen.pid)
            begun, used = time.monotonic(), process.cpu_times()
            time.sleep(seconds)
            took_s, after = time.monotonic() - begun, process.cpu_times()
            rss = process.memory_info().rss
            code = agent.stop()
        finally:
            agent.end()
    if code != 0:
        sys.exit(f"the agent ended with {code}: {agent.log.read_text()[-2000:]}")
    return {
        "lines": [json.loads(text) for text in frames.read_text().splitlines()],
        "summary": json.loads((root / "run/summary.json").read_text()),
        "cpu": (after.user + after.system - used.user - used.system) / took_s,
        "rss": rss,
    }


def steady(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without the first two seconds, and without the frame that lay in the slot when the benchmark ended the agent."""
    begun_ms = min(x["captured_unix_ms"] for x in lines) + 1000 * SETTLE_S
    return [x for x in lines if x["captured_unix_ms"] >= begun_ms and x["reason"] != "stopping"]


def near_fps_in_motion(lines: list[dict[str, Any]]) -> float:
    """Answers a second, over the seconds of the run in which at least one frame was turned away for its rate."""
    seconds: dict[int, Counter[str]] = {}
    for line in lines:
        second = int(line["captured_unix_ms"] // 1000)
        seconds.setdefault(second, Counter())[
            line["reason"] if line["outcome"] == "gated" else "answered"
        ] += 1
    moving = [c["answered"] for c in seconds.values() if c["rate"] > 0.5 * FPS]
    return sum(moving) / max(1, len(moving))


def measure(report: Report, arguments: argparse.Namespace) -> None:
    """CPU, frame rates and what became of the frames, for both methods of the gate."""
    seconds = 3 * PHASE_S if arguments.quick else 12 * PHASE_S
    report.figures["near"] = "centerface@192x160" if MODEL.exists() else "a timer of 15 ms"
    for method in ("mog2", "difference"):
        with tempfile.TemporaryDirectory() as root:
            seen = watch(Path(root), method=method, seconds=seconds)
        summary = seen["summary"]
        lines = steady(seen["lines"])
        captured = [x["captured_unix_ms"] for x in lines]
        captured_fps = (len(captured) - 1) / (max(captured) - min(captured)) * 1000
        shed = Counter(x["reason"] for x in lines if x["outcome"] == "shed")
        answered = [x for x in lines if x["outcome"] == "answered"]
        on_time = sum(x["on_time"] for x in answered) / max(1, len(answered) + sum(shed.values()))
        report.figures[method] = {
            "cpu_of_one_core": round(seen["cpu"], 3),
            "captured_fps": round(captured_fps, 2),
            "near_fps_in_motion": round(near_fps_in_motion(lines), 2),
            "frames": summary["frames"],
            "gated": summary["gated"],
            "on_time": round(on_time, 4),
            "steady_outcomes": dict(
                Counter(f"{x['outcome']}: {x['answered_by'] or x['reason']}" for x in lines)
            ),
            "latency_ms": summary_ms([1000 * x["latency_ms"] for x in answered]),
            "rss_mb": round(seen["rss"] / 1e6),
        }
        report.at_most(f"{method}: frames shed", 0, sum(shed.values()))
        report.at_least(f"{method}: captured fps", 0.98 * FPS, captured_fps)
        report.at_least(f"{method}: near fps in motion", 0.9 * NEAR_FPS, near_fps_in_motion(lines))
        report.at_least(f"{method}: on time", 0.99, on_time)
        report.at_most(f"{method}: CPU of one core", 1.0, seen["cpu"])


if __name__ == "__main__":
    run("camera", measure)
