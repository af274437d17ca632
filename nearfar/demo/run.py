"""Starts a worker process, a relay and an agent process on loopback, plays the phases, collects evidence."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from nearfar.assets import Assets
from nearfar.demo.phases import PHASES, Moment, write_moments
from nearfar.demo.verdict import Evidence
from nearfar.demo.view import View
from nearfar.relay import Relay
from pipelines.errors import Fatal

CLIP_FPS = 25
CLIP_FRAMES = 250
START_WITHIN_S = 30.0
END_WITHIN_S = 30.0

WORKER_YAML = """\
version: 1
name: demo-worker
state_dir: {state}
listen:
  {link}: {{address: "127.0.0.1:0"}}
  http: {{address: "127.0.0.1:0"}}
models:
  faces-320:
    detector: {{kind: centerface, model: {model}, input: 320x224, min_score: 0.5}}
    threads: 1
"""

PIPELINE_YAML = """\
version: 1
agent: demo-gateway
state_dir: {state}
deadline: 100ms
streams:
  street:
    source: {{kind: file, path: {clip}, pace: real_time, loop: true, frames: latest}}
near:
  detector: {{kind: centerface, model: {model}, input: 192x160, min_score: 0.5}}
far: {{model: faces-320}}
links:
  demo: {{url: "{link}://{address}"}}
sinks:
  - {{kind: stdout}}
"""


@contextlib.contextmanager
def child(arguments: list[str], log: Path) -> Iterator[subprocess.Popen[str]]:
    """`nearfar ARGUMENTS` as a process, its stderr in `log`; ended by SIGTERM, by force after 12 s."""
    with log.open("w") as errors:
        process = subprocess.Popen(  # noqa: S603 - our own command with our own arguments
            [sys.executable, "-m", "nearfar", *arguments],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            bufsize=1,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            try:
                process.wait(12)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()


def ready_line(process: subprocess.Popen[str], log: Path) -> dict[str, Any]:
    """The child's first line; Fatal with the end of its log when it died instead."""
    stdout: IO[str] = process.stdout  # type: ignore[assignment]
    timer = threading.Timer(START_WITHIN_S, process.kill)
    timer.start()
    try:
        line = stdout.readline()
    finally:
        timer.cancel()
    if not line:
        process.wait()
        raise Fatal(f"a part of the demo did not start; its last words:\n{_tail(log)}")
    return dict(json.loads(line))


def run(out: Path, assets: Assets, view: View, *, link: str) -> Evidence:
    """The demo from start to evidence over a kind of link; everything it writes lies in `out`, which is there and empty."""
    worker_yaml = out / "worker.yaml"
    worker_yaml.write_text(
        WORKER_YAML.format(state=_quoted(out / "worker"), model=_quoted(assets.model), link=link)
    )
    with child(["cloud", str(worker_yaml)], out / "worker.log") as worker:
        ready = ready_line(worker, out / "worker.log")
        relay = Relay(listen="127.0.0.1:0", to=str(ready[link]).partition("://")[2])
        relay.start()
        try:
            relay.set(rtt_ms=PHASES[0].rtt_ms, state="pass")
            moments = _drive(out, assets, relay, view, link)
        finally:
            relay.stop()
        store = str(ready["store"])
    write_moments(out / "phases.json", moments)
    return _evidence(out, moments, store)


def _drive(out: Path, assets: Assets, relay: Relay, view: View, link: str) -> list[Moment]:
    pipeline_yaml = out / "pipeline.yaml"
    pipeline_yaml.write_text(
        PIPELINE_YAML.format(
            state=_quoted(out / "gateway"),
            clip=_quoted(assets.clip),
            model=_quoted(assets.model),
            link=link,
            address=relay.address,
        )
    )
    seconds = sum(p.seconds for p in PHASES)
    arguments = ["edge", str(pipeline_yaml), "--run-dir", str(out), "--frames", str(int(seconds * CLIP_FPS))]
    with child(arguments, out / "agent.log") as agent:
        ready_line(agent, out / "agent.log")
        started_s = time.time()
        reader = threading.Thread(
            target=_read_answers,
            args=(agent, lambda line: view.answer(line, time.time() - started_s)),
            name="demo-answers",
            daemon=True,
        )
        reader.start()
        moments = []
        for phase in PHASES:
            relay.set(rtt_ms=phase.rtt_ms, state=phase.state)
            begun_s = time.time()
            view.phase(phase, begun_s - started_s)
            while time.time() - begun_s < phase.seconds and agent.poll() is None:
                time.sleep(0.1)
                view.refresh()
            moments.append(Moment(phase=phase, start_s=begun_s, end_s=time.time()))
        try:
            code = agent.wait(END_WITHIN_S)
        except subprocess.TimeoutExpired as error:
            raise Fatal(f"the agent did not end by itself:\n{_tail(out / 'agent.log')}") from error
        reader.join(2)
    if code != 0:
        raise Fatal(f"the agent ended with {code}:\n{_tail(out / 'agent.log')}")
    return moments


def _read_answers(agent: subprocess.Popen[str], answer: Callable[[Mapping[str, Any]], None]) -> None:
    for line in agent.stdout or ():
        with contextlib.suppress(json.JSONDecodeError):
            answer(json.loads(line))


def _evidence(out: Path, moments: list[Moment], store: str) -> Evidence:
    from cloud.store.records import open_store  # noqa: PLC0415 - SQLAlchemy loads only where records are read

    with (out / "frames.jsonl").open() as file:
        lines = [json.loads(line) for line in file]
    summary = json.loads((out / "summary.json").read_text())
    records = open_store(store)
    try:
        identities = [(i.run.hex(), i.stream, i.seq) for i in records.identities()]
    finally:
        records.close()
    return Evidence(
        lines=lines,
        moments=moments,
        records=frozenset(identities),
        duplicates=len(identities) - len(set(identities)),
        summary=summary,
        clip_frames=CLIP_FRAMES,
    )


def _quoted(path: Path) -> str:
    """A path as YAML: whatever signs are in it, they are only its name."""
    return json.dumps(str(path), ensure_ascii=False)


def _tail(log: Path, lines: int = 15) -> str:
    return os.linesep.join(log.read_text().splitlines()[-lines:])
