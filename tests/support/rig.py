"""A whole house of real processes on loopback: worker, agent, and a test that watches from outside.

The test is the independent sink: it reads the agent's answers from its stdout.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from cloud.store.records import open_store
from tests.support.eventually import eventually
from tests.support.rig_files import PIPELINE, WORKER
from tests.support.watched import Watched

Answer = dict[str, Any]


PORTS = range(10_000, 32_000)  # below those that Linux gives to whoever connects or asks for any
SLICES = 8  # as many runs of tests side by side have ports of their own
_tried = count()


def free_port() -> int:
    """A port nobody has: not even one that a client of another test, or a run beside this one, takes a moment later."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    mine = PORTS[worker % SLICES :: SLICES]
    for _ in mine:
        port = mine[(os.getpid() * 37 + next(_tried)) % len(mine)]  # a fork counts on from the same number
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("every port is taken")


class Process(Watched):
    """One `nearfar` process; `inside`: what starts it, in a network namespace say."""

    def __init__(self, arguments: list[str], log: Path, *, inside: Sequence[str] = ()) -> None:
        with log.open("a") as errors:
            popen = subprocess.Popen(
                [*inside, sys.executable, "-m", "nearfar", *arguments],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                bufsize=1,
            )
        super().__init__(popen, log)

    def stop(self, within_s: float = 15.0) -> int:
        """SIGTERM; its exit code."""
        self.popen.terminate()
        code = self.popen.wait(within_s)
        self.end()
        return code


class Rig:
    """`worker_host`: where the agent finds the worker; `inside`: what starts a process of the side `edge` or `cloud`,
    a network namespace say."""

    def __init__(self, root: Path, **options: Any) -> None:
        self.root = root
        self.port = free_port()
        self.options: dict[str, Any] = {
            "deadline": "1s",
            "fps": 25,
            "near_delay": "20ms",
            "far_delay": "10ms",
            "near_extra": "",
            "policy": "deadline",
            "model": "thing",
            "link_port": self.port,
            "link": "zmq",
            "size": "320x240",
            "extra": "",
            "worker_extra": "",
            "worker_host": "127.0.0.1",
            "inside": {"edge": (), "cloud": ()},
        } | options
        self.worker_sets: tuple[str, ...] = ()  # further settings of a worker started from now on
        self.worker: Process | None = None
        self.agent: Process | None = None
        self.seen: list[Answer] = []  # answers of agents that have ended
        self._started: list[Process] = []
        self._runs = 0

    # -- processes ------------------------------------------------------------------------------------------

    def start_worker(self, **changes: Any) -> Process:
        path = self.root / "worker.yaml"
        wanted = {"store": self.root / "worker"} | self.options | changes
        text = WORKER.format(port=self.port, **wanted)
        if self.options["worker_host"] != "127.0.0.1":
            text = text.replace(f'"127.0.0.1:{self.port}"', f'"0.0.0.0:{self.port}", insecure: true')
        path.write_text(text)
        sets = [word for item in self.worker_sets for word in ("--set", item)]
        log = self.root / "worker.log"
        self.worker = Process(["cloud", str(path), *sets], log, inside=self.options["inside"]["cloud"])
        self._started.append(self.worker)
        return self.worker.wait_ready()

    def start_agent(self, *arguments: str) -> Process:
        path = self.root / "pipeline.yaml"
        text = PIPELINE.format(root=self.root, **self.options)
        path.write_text(text.replace("://127.0.0.1:", f"://{self.options['worker_host']}:"))
        self._runs += 1
        self.agent = Process(
            ["edge", str(path), "--run-dir", str(self.run_dir), *arguments],
            self.root / "agent.log",
            inside=self.options["inside"]["edge"],
        )
        self._started.append(self.agent)
        return self.agent.wait_ready()

    @property
    def run_dir(self) -> Path:
        return self.root / f"run-{self._runs}"

    def kill_agent(self) -> None:
        assert self.agent is not None
        self.agent.kill()
        self.seen += self.agent.lines

    def stop_agent(self, within_s: float = 3.0) -> dict[str, Any]:
        """SIGTERM, exit code 0 within `within_s`: 2 s for the agent, 1 s for the end of its process on a busy machine; the
        summary, whose laws have been checked."""
        assert self.agent is not None
        begun = time.monotonic()
        code = self.agent.stop()
        took_s = time.monotonic() - begun
        log = self.agent.log.read_text()[-3000:]
        assert code == 0, f"exit code {code}:\n{log}"
        assert took_s < within_s, f"stopping took {took_s:.1f} s:\n{log}"
        self.seen += self.agent.lines
        return self.check_laws()

    def finish_agent(self, within_s: float = 60.0) -> dict[str, Any]:
        """Wait for an agent with --frames to end by itself; the checked summary."""
        assert self.agent is not None
        code = self.agent.popen.wait(within_s)
        self.agent.end()
        assert code == 0, f"exit code {code}:\n{self.agent.log.read_text()[-3000:]}"
        self.seen += self.agent.lines
        return self.check_laws()

    def stop_worker(self) -> None:
        assert self.worker is not None
        assert self.worker.stop() == 0, self.worker.log.read_text()[-3000:]

    def close(self) -> None:
        for process in self._started:
            if process.popen.poll() is None:
                process.signal(signal.SIGCONT)
                process.end()

    # -- what is seen -----------------------------------------------------------------------------------------

    @property
    def answers(self) -> list[Answer]:
        """Answers of the agent that runs, in the order they came out."""
        return self.agent.lines if self.agent is not None else []

    def wait_answers(self, by: str, count: int, *, after: int = 0, within_s: float = 10.0) -> list[Answer]:
        """At least `count` answers by `by` among those after the first `after`."""

        def enough() -> list[Answer]:
            found = [a for a in self.answers[after:] if a["answered_by"] == by]
            return found if len(found) >= count else []

        return eventually(
            enough, within_s, f"{count} answers by {by} after {after}: {_tally(self.answers[after:])}"
        )

    def wait_more(self, count: int, within_s: float = 15.0) -> None:
        """`count` more answers than there are now."""
        many = len(self.answers) + count
        eventually(lambda: len(self.answers) >= many, within_s, f"{many} answers")

    def wait_far_on_time(self, *, after: int, within_s: float = 2.0) -> None:
        def on_time() -> bool:
            return any(a["answered_by"] == "far" and a["on_time"] for a in self.answers[after:])

        eventually(on_time, within_s, f"a far answer on time after {after}: {_tally(self.answers[after:])}")

    def check_laws(self) -> dict[str, Any]:
        """captured = answered + gated + shed + pending, one line a frame, no identity twice."""
        summary: dict[str, Any] = json.loads((self.run_dir / "summary.json").read_text())
        frames = summary["frames"]
        shed = sum(frames["shed"].values())
        answered = frames["near"] + frames["far"] + frames["tracked"] + frames["missed"]
        assert frames["captured"] == answered + frames["gated"] + shed + frames["pending"]
        assert frames["pending"] == 0
        with (self.run_dir / "frames.jsonl").open() as file:
            lines = [json.loads(line) for line in file]
        assert len(lines) == frames["captured"]
        identities = [(x["run"], x["stream"], x["seq"]) for x in lines]
        assert len(set(identities)) == len(identities)
        assert {x["seq"] for x in lines} == set(range(1, len(lines) + 1))
        for line in lines:
            if line["status"] != "ok":
                assert line["detections"] is None, f"no answer must not look like no objects: {line}"
        return summary

    def seen_identities(self) -> list[tuple[str, str, int]]:
        return [(a["run"], a["stream"], a["seq"]) for a in self.seen]

    def records(self) -> list[tuple[str, str, int]]:
        store = open_store(f"sqlite:///{self.root}/worker/records.db")
        try:
            return [(i.run.hex(), i.stream, i.seq) for i in store.identities()]
        finally:
            store.close()

    def interrupted(self) -> Callable[[tuple[str, str, int]], bool]:
        """Whether an identity lies in a gap the cloud knows as interrupted."""
        store = open_store(f"sqlite:///{self.root}/worker/records.db")
        try:
            gaps = [gap for _, gap in store.gaps() if gap.reason == "interrupted"]
        finally:
            store.close()
        return lambda i: any(
            g.run.hex() == i[0] and g.stream == i[1] and g.first <= i[2] <= g.last for g in gaps
        )


def _tally(answers: list[Answer]) -> dict[str, int]:
    out: dict[str, int] = {}
    for answer in answers:
        out[answer["answered_by"]] = out.get(answer["answered_by"], 0) + 1
    return out


@contextmanager
def rig(root: Path, **options: Any) -> Iterator[Rig]:
    made = Rig(root, **options)
    try:
        yield made
    finally:
        made.close()
