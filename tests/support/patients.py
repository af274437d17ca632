"""Pipelines for a doctor to examine, and what answers, or does not, at the other end of their links."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cloud.listeners.zmq.listener import ZmqListener
from edge.config.pipeline import PipelineConfig, load_pipeline
from nearfar.doctor.examination import examine
from nearfar.doctor.finding import Finding, Level
from pipelines.runtime import monotonic_us
from protos.endpoint import Endpoint

PIPELINE = """\
version: 1
agent: gw-17
state_dir: {root}/gateway
deadline: 1s
streams: {{door: {{source: {{kind: synthetic, size: 320x240, fps: 10}}}}}}
near: {{detector: {{kind: synthetic, delay: 5ms}}}}
links: {{lte: {{url: "{url}"}}}}
"""
BEHIND = ["protocol", "hello", "model", "rtt", "bandwidth", "deadline"]


class Patient:
    """A pipeline to be examined; `url` is its link."""

    def __init__(self, root: Path) -> None:
        self.file = root / "p.yaml"
        self._root = root

    def config(self, *sets: str, url: str = "zmq://127.0.0.1:1") -> PipelineConfig:
        """The pipeline, also written to `file`."""
        self.file.write_text(PIPELINE.format(root=self._root, url=url))
        return load_pipeline(self.file, sets)

    def examined(self, *sets: str, url: str = "zmq://127.0.0.1:1") -> dict[str, Finding]:
        """Findings by layer."""
        return {finding.layer: finding for finding in examine(self.config(*sets, url=url))}


@contextmanager
def listening(endpoint: Endpoint) -> Iterator[str]:
    """The URL of a ZeroMQ worker in this process."""
    listener = ZmqListener(endpoint, address="127.0.0.1:0", clock_us=monotonic_us)
    listener.start()
    try:
        yield listener.address.replace("tcp://", "zmq://")
    finally:
        listener.stop()


@contextmanager
def answering(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """A port where every connection is given to `serve`."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def run() -> None:
            while True:
                try:
                    line, _ = server.accept()
                except OSError:
                    return
                with line:
                    line.settimeout(5)
                    serve(line)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield int(server.getsockname()[1])
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join(10)


def failed(found: dict[str, Finding]) -> list[str]:
    return [layer for layer, finding in found.items() if finding.level is Level.FAIL]


def assert_not_checked(found: dict[str, Finding], layers: list[str], because: str) -> None:
    for layer in layers:
        assert found[layer].level is Level.SKIPPED, layer
        assert found[layer].words == f"not checked because {because} failed"
