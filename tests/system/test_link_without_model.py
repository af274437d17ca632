"""A worker that lacks the wanted model answers no frame, and takes the records all the same."""

from contextlib import ExitStack
from pathlib import Path
from threading import Event

from edge.agent import Agent
from edge.config.pipeline import load_pipeline
from edge.links.memory import MemoryLink
from pipelines.codecs.jpeg import JpegCodec
from pipelines.detectors.synthetic import SyntheticDetector
from tests.support.eventually import eventually
from tests.support.workers import clock_us, service

PIPELINE = """\
version: 1
agent: gateway
state_dir: {root}/gateway
deadline: 2s
streams:
  door: {{source: {{kind: synthetic, size: 320x240, fps: 25, count: 40}}}}
near: {{detector: {{kind: synthetic, delay: 5ms, labels: [thing]}}}}
far: {{model: wanted}}
links: {{d: {{url: "zmq://127.0.0.1:1"}}}}
"""


def test_records_go_up_over_a_worker_that_lacks_the_wanted_model(tmp_path: Path) -> None:
    (tmp_path / "worker").mkdir()
    path = tmp_path / "pipeline.yaml"
    path.write_text(PIPELINE.format(root=tmp_path))
    with ExitStack() as stack:
        worker, store = stack.enter_context(
            service(
                tmp_path / "worker",
                build=lambda: SyntheticDetector(delay_us=10_000),
                sha256=SyntheticDetector(delay_us=10_000).sha256,
                codecs={"jpeg": JpegCodec()},
                models=("other",),
                default_model="other",
            )
        )
        link = MemoryLink(name="d", endpoint=worker, clock_us=clock_us, delay_us=1_000)
        agent = Agent(load_pipeline(path), run_dir=tmp_path / "run", link=link)
        stack.callback(agent.close)
        agent.start()
        eventually(lambda: agent.wait(Event(), poll_s=0.02), 60.0, "the end of the clip")
        agent.drain(Event(), 10_000_000)
        (sight,) = agent.dispatcher.far.sights if agent.dispatcher.far is not None else ()
        agent.close()
        assert not sight.connected, "no frame may go there"
        assert agent.broken == []
        answered = sum(agent.counters.answered.values())
        assert answered >= 20
        assert len(store.identities()) == answered
        assert worker.metrics.value("nearfar_worker_records_total", source="backfill") == answered
        assert worker.metrics.value("nearfar_worker_frames_admitted_total") == 0
