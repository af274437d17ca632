"""What the agent adds to a frame's way besides encoding, detecting, the network and planned waits.

Agent and worker are processes of their own on loopback, ZeroMQ between them, 720p at 30 fps; the detectors are
timers of 15 ms, so that what is measured is ours. Run once with near and far both at work on every frame
(`hedge: immediate`) and once near alone.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from tests.bench.report import Report, run, summary_ms
from tests.support.rig import Process, free_port

WORKER = """\
version: 1
state_dir: {root}/worker
listen:
  zmq: {{address: "127.0.0.1:{port}"}}
  http: null
models:
  thing:
    detector: {{kind: synthetic, delay: 15ms}}
"""
PIPELINE = """\
version: 1
agent: bench
state_dir: {root}/gateway
streams:
  cam: {{source: {{kind: synthetic, size: 1280x720, fps: 30}}}}
near:
  detector: {{kind: synthetic, delay: 15ms}}
links:
  cable: {{url: "zmq://127.0.0.1:{port}"}}
scheduler: {{policy: {policy}, hedge: {{start: immediate}}}}
"""
FAR_WORK = (
    "encode",
    "transmission_est",
    "propagation_est",
    "network_queue_est",
    "worker_queue",
    "decode",
    "batch_wait",
    "detect",
)
NEAR_WORK = ("planned_wait", "detect", "hold")
HELP_RUNS = 7


def overhead_us(line: dict[str, Any]) -> float:
    """capture → answer, minus the work and the waits that were planned."""
    work = FAR_WORK if line["answered_by"] == "far" else NEAR_WORK
    return 1000 * float(line["latency_ms"] - sum(line["timing"].get(name, 0.0) for name in work))


def agent_run(root: Path, *, policy: str, frames: int, soak_s: float = 0.0) -> dict[str, Any]:
    """One agent beside one worker: its frame lines, summary, time to ready and memory over time."""
    port = free_port()
    (root / "worker.yaml").write_text(WORKER.format(root=root, port=port))
    (root / "pipeline.yaml").write_text(PIPELINE.format(root=root, port=port, policy=policy))
    worker = Process(["cloud", str(root / "worker.yaml")], root / "worker.log").wait_ready()
    try:
        begun = time.monotonic()
        agent = Process(
            ["edge", str(root / "pipeline.yaml"), "--run-dir", str(root / "run"), "--frames", str(frames)],
            root / "agent.log",
        )
        try:
            agent.wait_ready()
            ready_s = time.monotonic() - begun
            rss = _watch_memory(agent, soak_s)
            code = agent.popen.wait(frames / 30 + 60)
        finally:
            agent.end()
        if code != 0:
            sys.exit(f"the agent ended with {code}: {agent.log.read_text()[-2000:]}")
    finally:
        worker.stop()
    lines = [json.loads(text) for text in (root / "run/frames.jsonl").read_text().splitlines()]
    summary = json.loads((root / "run/summary.json").read_text())
    return {"lines": lines, "summary": summary, "ready_s": ready_s, "rss": rss}


def _watch_memory(agent: Process, soak_s: float) -> list[int]:
    """Resident bytes once a second while the agent runs, for `soak_s`."""
    rss: list[int] = []
    process = psutil.Process(agent.popen.pid)
    end = time.monotonic() + soak_s
    while time.monotonic() < end and agent.popen.poll() is None:
        rss.append(process.memory_info().rss)
        time.sleep(1)
    return rss


def help_s() -> float:
    """Median seconds of `nearfar --help` as a whole process."""
    took = []
    for _ in range(HELP_RUNS):
        begun = time.monotonic()
        subprocess.run([sys.executable, "-m", "nearfar", "--help"], check=True, capture_output=True)
        took.append(time.monotonic() - begun)
    return sorted(took)[HELP_RUNS // 2]


def measure(report: Report, arguments: argparse.Namespace) -> None:
    """Overhead per frame, memory, start-up."""
    frames = 300 if arguments.quick else 1800
    for policy in ("deadline", "near_only"):
        with tempfile.TemporaryDirectory() as root:
            seen = agent_run(Path(root), policy=policy, frames=frames)
        answered = [x for x in seen["lines"] if x["outcome"] == "answered" and x["status"] == "ok"]
        steady = [x for x in answered if x["seq"] > 60]
        costs = summary_ms([overhead_us(x) for x in steady])
        by = {b: sum(x["answered_by"] == b for x in answered) for b in ("near", "far", "missed")}
        report.figures[policy] = {
            "overhead_ms": costs,
            "answers": by,
            "near_runs": seen["summary"]["near"]["runs"],
            "on_time": seen["summary"]["on_time"]["rate"],
            "ready_s": round(seen["ready_s"], 2),
        }
        report.at_most(f"{policy}: overhead p99 ms", 5.0, costs["p99"])
        report.at_most(f"{policy}: ready s", 2.0, seen["ready_s"])
    report.figures["help_s"] = round(help_s(), 3)
    report.at_most("nearfar --help s", 0.4, report.figures["help_s"])
    if arguments.soak:
        with tempfile.TemporaryDirectory() as root:
            seen = agent_run(Path(root), policy="deadline", frames=30 * 630, soak_s=620)
        settled = seen["rss"][60:]
        early, late = sum(settled[:60]) / 60, sum(settled[-60:]) / 60
        report.figures["soak"] = {"minutes": len(seen["rss"]) / 60, "rss_mb": [early / 1e6, late / 1e6]}
        report.at_most("soak: memory change %", 5.0, abs(late / early - 1) * 100)


if __name__ == "__main__":
    run("overhead", measure, soak="watch memory for ten minutes as well")
