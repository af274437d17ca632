"""A peer's server and client, each in a process of its own with all that they start, in the peer's environment.

`ask` gives what was measured or raises PeerFailed with the peer's last words. After `close` nothing of them runs.
"""

import json
import os
import select
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil

from tests.bench.peers.environments import ROOT
from tests.bench.peers.kinds import Peer

START_WITHIN_S = 90.0
ANSWER_WITHIN_S = 20.0
STOP_WITHIN_S = 15.0
# the thresholds that our own processes set with mallopt, for everybody: see pipelines/runtime.py
_MALLOC = {"MALLOC_MMAP_THRESHOLD_": str(64 << 20), "MALLOC_TRIM_THRESHOLD_": str(256 << 20)}


class PeerFailed(Exception):
    """It did not start, stopped answering, or answered with something else."""


class _Side:
    """One process that is spoken to in lines of JSON, and the leader of all that it starts."""

    def __init__(self, python: Path, arguments: list[str], log: Path) -> None:
        self._log = log
        self._what = " ".join(arguments[:2])
        environment = {key: value for key, value in os.environ.items() if key != "VIRTUAL_ENV"}
        with log.open("ab") as stderr:
            self._process = subprocess.Popen(
                [str(python), "-m", "tests.bench.peers.child", *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                cwd=ROOT,
                env=environment | _MALLOC | {"PYTHONPATH": str(ROOT)},
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, what: object) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(what).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise PeerFailed(self._words("has ended")) from error

    def hear(self, within_s: float) -> Any:
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], within_s)
        if not ready:
            raise PeerFailed(self._words(f"was silent for {within_s:.0f} s"))
        line = self._process.stdout.readline()
        if not line:
            raise PeerFailed(self._words("has ended"))
        return json.loads(line)

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):  # it may have ended before it took what we had to say
            self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):  # killed below
            self._process.wait(STOP_WITHIN_S)
        with suppress(ProcessLookupError):  # what it started may have ended with it
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process.stdout.close()

    def _words(self, happened: str) -> str:
        said = [line for line in self._log.read_text(errors="replace").splitlines() if line.strip()]
        return f"{self._what} {happened}" + (f": {said[-1].strip()[:200]}" if said else "")


class Pair:
    """Started and connected once it is made."""

    def __init__(self, peer: Peer, python: Path, folder: Path) -> None:
        self._sides: list[_Side] = []
        try:
            server = self._start(python, ["serve", peer.name], folder / "server.log")
            port = server.hear(START_WITHIN_S)["port"]
            self._client = self._start(python, ["client", peer.name, str(port)], folder / "client.log")
            self._client.hear(START_WITHIN_S)
            self._processes = self._census()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()

    def ask(self, *, size_bytes: int, frames: int, window: int) -> dict[str, float]:
        """`p50_us`, `p99_us` (of a window of 1) and `per_s`; `cpu_s` of both sides and all that they started."""
        before_s = self._cpu_s()
        self._client.ask({"size_bytes": size_bytes, "frames": frames, "window": window})
        measured: dict[str, float] = self._client.hear(ANSWER_WITHIN_S)
        return measured | {"cpu_s": self._cpu_s() - before_s}

    def close(self) -> None:
        while self._sides:
            self._sides.pop().close()

    def _start(self, python: Path, arguments: list[str], log: Path) -> _Side:
        side = _Side(python, arguments, log)
        self._sides.append(side)
        return side

    def _census(self) -> list[psutil.Process]:
        """Both sides and all that they have started; looking for those takes long, so it is done once."""
        try:
            leaders = [psutil.Process(side.pid) for side in self._sides]
            return [*leaders, *(child for leader in leaders for child in leader.children(recursive=True))]
        except psutil.NoSuchProcess as error:
            raise PeerFailed(f"it has ended: {error}") from error

    def _cpu_s(self) -> float:
        used_s = 0.0
        for process in self._processes:
            with suppress(psutil.NoSuchProcess):  # said by the next word it is asked for
                times = process.cpu_times()
                used_s += times.user + times.system
        return used_s
