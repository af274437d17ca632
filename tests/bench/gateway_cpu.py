"""What far costs the gateway: CPU of the agent per frame when frames are offloaded, against near alone.

Agent and worker are processes of their own on loopback, ZeroMQ between them: the demo's clip, its detector near. The
worker's is a timer, for its CPU would be another machine's.
Three modes in turn, so that the machine's moods are shared: near alone; the deadline policy with a good link (near is
reserved and cancelled); and with `hedge: immediate` (near starts on every frame as well). Needs the clip and the model
in `.assets` (`make demo` or `python -m nearfar.assets .assets` fetches them).
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from nearfar.assets import Assets, locate
from pipelines.errors import ConfigError
from tests.bench.report import Report, run
from tests.support.rig import Process, free_port

FPS = 15
WARM_S = 3.0
MODES: Mapping[str, str] = {
    "near_only": "{policy: near_only}",
    "offloaded": "{policy: deadline}",
    "hedged": "{policy: deadline, hedge: {start: immediate}}",
}
WORKER = """\
version: 1
state_dir: {root}/worker
listen:
  zmq: {{address: "127.0.0.1:{port}"}}
  http: null
models:
  faces:
    detector: {{kind: synthetic, delay: 20ms, input: 320x224, labels: [face]}}
"""
PIPELINE = """\
version: 1
agent: bench
state_dir: {root}/gateway
deadline: 100ms
labels: [face]
streams:
  street: {{source: {{kind: file, path: {clip}, loop: true, fps: {fps}}}}}
near:
  detector: {{kind: centerface, model: {model}, input: 192x160}}
far: {{model: faces}}
links:
  cable: {{url: "zmq://127.0.0.1:{port}"}}
scheduler: {scheduler}
"""
BAR = 1.3


@dataclass
class Cost:
    """CPU of one mode, added up over its runs. `threads_ms`: per frame by thread, the dearest first."""

    cpu_s: float = 0.0
    frames: int = 0
    far: int = 0
    near_runs: int = 0
    cancelled: int = 0
    on_time: int = 0
    payload_bytes: int = 0
    threads_ms: tuple[float, ...] = ()

    @property
    def cpu_ms(self) -> float:
        """Per frame."""
        return 1000 * self.cpu_s / max(1, self.frames)

    def as_dict(self) -> dict[str, Any]:
        share = 1 / max(1, self.frames)
        return {
            "cpu_ms_per_frame": round(self.cpu_ms, 2),
            "frames": self.frames,
            "answered_far": round(self.far * share, 3),
            "near_runs": round(self.near_runs * share, 3),
            "near_cancelled": round(self.cancelled * share, 3),
            "kb_per_frame": round(self.payload_bytes * share / 1000, 1),
            "on_time": round(self.on_time * share, 4),
            "threads_ms_per_frame": self.threads_ms,
        }


def add_run(cost: Cost, root: Path, *, scheduler: str, assets: Assets, seconds: float) -> None:
    """One agent beside one worker for `seconds`, after a while to settle; its CPU and answers go into `cost`."""
    port = free_port()
    (root / "worker.yaml").write_text(WORKER.format(root=root, port=port))
    (root / "pipeline.yaml").write_text(
        PIPELINE.format(
            root=root, port=port, clip=assets.clip, model=assets.model, fps=FPS, scheduler=scheduler
        )
    )
    worker = Process(["cloud", str(root / "worker.yaml")], root / "worker.log").wait_ready()
    try:
        agent = Process(
            ["edge", str(root / "pipeline.yaml"), "--run-dir", str(root / "run")], root / "agent.log"
        )
        try:
            agent.wait_ready()
            time.sleep(WARM_S)
            process = psutil.Process(agent.popen.pid)
            before = _times(process)
            time.sleep(seconds)
            after = _times(process)
            agent.stop()
        finally:
            agent.end()
    finally:
        worker.stop()
    lines = [json.loads(text) for text in (root / "run/frames.jsonl").read_text().splitlines()]
    summary = json.loads((root / "run/summary.json").read_text())
    answered = [x for x in lines if x["outcome"] == "answered"]
    # CPU is of the middle of the run, counts are of all of it: both come at the same pace.
    spent = {tid: after[tid] - before.get(tid, 0.0) for tid in after}
    frames = round(seconds * FPS)
    scale = frames / max(1, len(answered))
    cost.cpu_s += sum(spent.values())
    cost.frames += frames
    cost.far += round(scale * sum(x["answered_by"] == "far" for x in answered))
    cost.on_time += round(scale * len(answered) * summary["on_time"]["rate"])
    cost.near_runs += round(scale * summary["near"]["runs"])
    cost.cancelled += round(scale * summary["near"]["cancelled"])
    cost.payload_bytes += round(scale * summary["far"]["payload_bytes"])
    dearest = sorted((1000 * s / frames for s in spent.values()), reverse=True)
    cost.threads_ms = tuple(round(ms, 2) for ms in dearest[:8])


def _times(process: psutil.Process) -> dict[int, float]:
    """CPU seconds by thread."""
    return {thread.id: thread.user_time + thread.system_time for thread in process.threads()}


def measure(report: Report, arguments: argparse.Namespace) -> None:
    """CPU of the agent per frame, by mode."""
    try:
        assets = locate(Path(arguments.assets or ".assets"))
    except ConfigError as error:
        sys.exit(str(error))
    rounds, seconds = (1, 5.0) if arguments.quick else (4, 15.0)
    costs = {mode: Cost() for mode in MODES}
    for _ in range(rounds):
        for mode, scheduler in MODES.items():
            with tempfile.TemporaryDirectory() as root:
                add_run(costs[mode], Path(root), scheduler=scheduler, assets=assets, seconds=seconds)
    for mode, cost in costs.items():
        report.figures[mode] = cost.as_dict()
    alone_ms = costs["near_only"].cpu_ms
    for mode in ("offloaded", "hedged"):
        report.at_most(f"{mode}: CPU per frame, times near_only", BAR, costs[mode].cpu_ms / alone_ms)


if __name__ == "__main__":
    run("gateway_cpu", measure, values={"assets": "folder of the clip and the model, .assets by default"})
