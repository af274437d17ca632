"""A worker and an agent that offloads to it, as real processes, both with a page."""

import urllib.request
from pathlib import Path

from tests.support.rig import Process, free_port

WORKER = """\
version: 1
name: seen-worker
state_dir: {root}/worker
listen: {{zmq: {{address: "127.0.0.1:{port}"}}, http: {{address: "127.0.0.1:0"}}}}
models: {{thing: {{detector: {{kind: synthetic, delay: 5ms}}}}}}
"""
PIPELINE = """\
version: 1
agent: seen-gateway
state_dir: {root}/gateway
deadline: 1s
http: {{address: "127.0.0.1:0"}}
streams: {{cam: {{source: {{kind: synthetic, size: 160x120, fps: 20}}}}}}
near: {{detector: {{kind: synthetic, delay: 10ms}}}}
links: {{cable: {{url: "zmq://127.0.0.1:{port}"}}}}
"""


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=5) as reply:  # noqa: S310 - our own http address
        return str(reply.read().decode())


class Site:
    """A worker and an agent that offloads to it, both with a page."""

    def __init__(self, root: Path) -> None:
        port = free_port()
        (root / "w.yaml").write_text(WORKER.format(root=root, port=port))
        (root / "p.yaml").write_text(PIPELINE.format(root=root, port=port))
        self._started = [
            Process(["cloud", str(root / "w.yaml")], root / "w.log"),
            Process(["edge", str(root / "p.yaml")], root / "p.log"),
        ]
        self.worker, self.agent = self._started

    def wait(self) -> "Site":
        for process in self._started:
            process.wait_ready()
        return self

    def text(self, process: Process) -> str:
        return get(f"{process.ready['http']}/metrics")

    def value(self, process: Process, series: str) -> float | None:
        """What one series (`name` or `name{labels}`) shows, None while it is not there."""
        for line in self.text(process).splitlines():
            name, _, value = line.rpartition(" ")
            if name == series:
                return float(value)
        return None

    def close(self) -> None:
        for process in self._started:
            process.end()
