"""Agent and worker as processes of their own in the two namespaces of netlab, and what can happen between them."""

import contextlib
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.watched import Watched

ROOT = Path(__file__).parents[2]
WORKER_NAME = "worker.test"
OTHER_WORKER_ADDRESS = "10.77.0.3"
SMALL_PACKET_BYTES = 600
"""What an MTU blackhole lets pass: pings, heads and acknowledgements, no frame."""


class Inside(Watched):
    """One process in a namespace; `ip netns exec` and `taskset` become the command they are given."""

    @property
    def pid(self) -> int:
        return self.popen.pid

    def stop(self, within_s: float = 15.0) -> int:
        """SIGTERM, also to one that stands still, then by force; the exit code."""
        if self.popen.poll() is None:
            self.signal(signal.SIGCONT)
            self.popen.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.popen.wait(within_s)
        self.end()
        return int(self.popen.returncode)


class House:
    """Everything started in it is ended by `close`; `wire` is a started `netlab.Link` and stays its owner's.

    `edge_cpu` and `cloud_cpu` pin what is started on each side to one core, None = anywhere.
    """

    def __init__(
        self, wire: Any, root: Path, *, edge_cpu: int | None = None, cloud_cpu: int | None = None
    ) -> None:
        self.wire = wire
        self.root = root
        self._cpu = {"edge": edge_cpu, "cloud": cloud_cpu}
        self._started: list[Inside] = []
        self._hosts: Path | None = None

    def start(
        self, side: str, arguments: Sequence[str], *, log: str, env: dict[str, str] | None = None
    ) -> Inside:
        """`python ARGUMENTS` on one side, its stderr in `root/log`."""
        path = self.root / log
        cpu = self._cpu[side]
        command = [] if cpu is None else ["taskset", "-c", str(cpu)]
        settings = [f"{name}={value}" for name, value in (env or {}).items()]
        command += ["env", f"PYTHONPATH={ROOT}", *settings, sys.executable, *arguments]
        popen = self.wire.popen_edge if side == "edge" else self.wire.popen_cloud
        with path.open("a") as errors:
            made = Inside(popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, bufsize=1), path)
        self._started.append(made)
        return made

    def burn(self, side: str) -> Inside:
        """Something that takes all it gets of the core."""
        return self.start(side, ["-c", "while True: pass"], log="hog.log")

    def close(self) -> None:
        for process in reversed(self._started):
            process.kill()
        if self._hosts is not None:
            shutil.rmtree(self._hosts.parent)

    # -- what happens on the way --------------------------------------------------------------------------

    def tables(self, side: str, *rule: str) -> None:
        """One rule of iptables; raises with its words."""
        code, _, errors = self.wire.run(side, ["iptables", *rule])
        if code:
            raise RuntimeError(f"iptables {' '.join(rule)}: {errors.strip()}")

    def reset_everything(self, *, begin: bool) -> None:
        """Whoever speaks to the worker gets a reset, from its side of the link."""
        what = ["INPUT", "-i", "link0", "-p", "tcp", "-j", "REJECT", "--reject-with", "tcp-reset"]
        self.tables("cloud", "-I" if begin else "-D", *what)

    def lose_large_packets(self, *, begin: bool) -> None:
        """Towards the worker only packets of at most 600 bytes arrive, and nobody says so."""
        size = f"{SMALL_PACKET_BYTES + 1}:65535"
        what = ["INPUT", "-i", "link0", "-m", "length", "--length", size, "-j", "DROP"]
        self.tables("cloud", "-I" if begin else "-D", *what)

    def forget_flows(self) -> None:
        """What a box that translates addresses does when it loses its table: present connections are dead in both
        directions, in silence; new ones work."""
        _, out, _ = self.wire.run("edge", ["ss", "-tnH", "state", "connected"])
        ports = {line.split()[-2].rpartition(":")[2] for line in out.splitlines() if line.split()}
        for port in sorted(ports):
            self.tables("cloud", "-I", "INPUT", "-i", "link0", "-p", "tcp", "--sport", port, "-j", "DROP")
            self.tables("edge", "-I", "INPUT", "-i", "link0", "-p", "tcp", "--dport", port, "-j", "DROP")

    def name_worker(self) -> str:
        """A name the agent can look up; call before it starts. The name leads to the worker's first address."""
        folder = Path("/etc/netns") / self.wire.edge_ns
        folder.mkdir(parents=True)
        self._hosts = folder / "hosts"
        self._say(self.wire.cloud_addr)
        return WORKER_NAME

    def move_worker(self) -> None:
        """The worker has another address, the old one leads nowhere, and the name says so."""
        dev = ["dev", "link0"]
        self.wire.run("cloud", ["ip", "addr", "add", f"{OTHER_WORKER_ADDRESS}/24", *dev])
        self.tables("cloud", "-I", "INPUT", "-d", self.wire.cloud_addr, "-j", "DROP")
        self._say(OTHER_WORKER_ADDRESS)

    def _say(self, address: str) -> None:
        """In place: what a namespace sees is this very file."""
        assert self._hosts is not None
        with self._hosts.open("w") as file:
            file.write(f"127.0.0.1 localhost\n{address} {WORKER_NAME}\n")
