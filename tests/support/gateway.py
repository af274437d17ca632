"""A whole agent and a worker's service in this process, joined by a link in memory."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

from cloud.service import Service
from cloud.store.records import RecordStore
from edge.agent import Agent
from edge.config.pipeline import load_pipeline
from edge.links.memory import MemoryLink
from pipelines.codecs.base import Codec
from pipelines.detectors.base import Detector
from tests.support.eventually import eventually
from tests.support.workers import clock_us, service

HEAD = """\
version: 1
agent: gateway
state_dir: {root}/gateway
deadline: 2s
"""
Line = dict[str, Any]


class Gateway:
    """`agent` is started by `run`, which ends it when its clips have ended or `until` holds."""

    def __init__(self, root: Path, agent: Agent, made: Service, store: RecordStore) -> None:
        self.root, self.agent, self.service, self.store = root, agent, made, store

    def run(self, *, until: Callable[[], bool] | None = None, within_s: float = 60.0) -> dict[str, Any]:
        """Everything answered, kept by the cloud and closed; the summary, whose laws held."""
        # The first frame is read once there is a worker, so that how many go far does not depend on the machine.
        self.agent.start(ready=self._wait_for_the_worker)
        if until is None:
            eventually(lambda: self.agent.wait(Event(), poll_s=0.02), within_s, "the end of the clips")
        else:
            eventually(until, within_s, "what the test waits for")
            self.agent.stop_capture()
        self.agent.drain(Event(), 10_000_000)
        self.agent.close()
        summary: dict[str, Any] = json.loads((self.root / "run" / "summary.json").read_text())
        frames = summary["frames"]
        assert frames["adds_up"]
        assert frames["pending"] == 0
        assert self.agent.broken == []
        assert len(self.lines()) == frames["captured"]
        return summary

    def _wait_for_the_worker(self) -> None:
        far = self.agent.dispatcher.far
        assert far is not None
        eventually(lambda: all(port.connections > 0 for port in far), 10.0, "a welcome")

    def lines(self) -> list[Line]:
        """Of frames.jsonl, by seq."""
        path = self.root / "run" / "frames.jsonl"
        text = path.read_text() if path.exists() else ""
        lines = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
        return sorted(lines, key=lambda line: int(line["seq"]))


@contextmanager
def gateway(
    root: Path, pipeline: str, *, build: Callable[[], Detector], codecs: Mapping[str, Codec]
) -> Iterator[Gateway]:
    """`pipeline` is YAML below HEAD; `build` makes the far detector. Files go below `root`."""
    (root / "worker").mkdir(parents=True)
    path = root / "pipeline.yaml"
    path.write_text((HEAD + pipeline).format(root=root))
    with service(root / "worker", build=build, codecs=codecs) as (made, store):
        link = MemoryLink(name="memory", endpoint=made, clock_us=clock_us, delay_us=1_000)
        agent = Agent(load_pipeline(path), run_dir=root / "run", link=link)
        try:
            yield Gateway(root, agent, made, store)
        finally:
            agent.close()
