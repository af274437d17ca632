"""Near, smaller, tracked, missed: a real agent whose near and link get slower and slower says at each step who answers.

One process: a worker's service behind a link in memory, pictures and detectors synthetic, near as slow as it is told.
"""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cloud.store.records import RecordStore
from edge.agent import Agent
from edge.config.pipeline import load_pipeline
from edge.links.memory import MemoryLink
from nearfar.report.run import read_run
from pipelines.codecs.jpeg import JpegCodec
from pipelines.detectors.base import CancelToken
from pipelines.detectors.synthetic import SyntheticDetector
from pipelines.frame import Picture
from pipelines.result import AnsweredBy, Detections, Priority
from tests.support.eventually import eventually
from tests.support.workers import clock_us, service

pytestmark = pytest.mark.alone

PIPELINE = """\
version: 1
agent: gateway
state_dir: {root}/gateway
deadline: 200ms
rtt_budget: {{fall_back_above: {band}, return_below: 100ms}}
labels: [thing]
streams:
  door:
    source: {{kind: synthetic, size: 320x240, fps: 20}}
    priority: low
    rules:
      - {{when: {{label: thing, score_above: 80%, region: [0, 0, 1, 1]}}, priority: high}}
{near}
tracker: {{kind: flow, max_age: {max_age}, accuracy: 0.3}}
"""
NEAR = """\
near:
  detector: {kind: synthetic, delay: 12ms, labels: [thing]}
  accuracy: 0.5
  smaller: {input: 160x120, accuracy: 0.4}
"""
ONLY_FAR = "links: {memory: {url: 'zmq://127.0.0.1:1'}}"
FULL, SMALLER = "synthetic@320x240", "synthetic@160x120"
Line = dict[str, Any]


class Slow:
    """A detector that takes as long as it is told, cancellable like any other."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.extra_s = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def detect(self, picture: Picture, cancel: CancelToken | None = None) -> Detections:
        stopped = threading.Event()
        if cancel is not None:
            cancel.on_cancel(stopped.set)
        stopped.wait(self.extra_s)
        found: Detections = self._inner.detect(picture, cancel)
        return found


@dataclass
class House:
    root: Path
    agent: Agent
    link: MemoryLink
    store: RecordStore
    full: Slow
    smaller: Slow

    def lines(self) -> list[Line]:
        path = self.root / "run" / "frames.jsonl"
        text = path.read_text() if path.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def wait_for(self, wanted: Callable[[Line], bool], count: int, what: str) -> None:
        """Until `count` frames written from now on are as wanted."""
        before = len(self.lines())
        eventually(
            lambda: sum(wanted(line) for line in self.lines()[before:]) >= count,
            20.0,
            what,
        )

    def end(self) -> Line:
        self.agent.stop_capture()
        self.agent.drain(threading.Event(), 10_000_000)
        self.agent.close()
        summary: Line = json.loads((self.root / "run" / "summary.json").read_text())
        return summary


@contextmanager
def house(root: Path, *, near: str = NEAR, max_age: int = 5, band: str = "200ms") -> Iterator[House]:
    (root / "worker").mkdir()
    path = root / "pipeline.yaml"
    path.write_text(PIPELINE.format(root=root, near=near, max_age=max_age, band=band))

    def far() -> SyntheticDetector:
        return SyntheticDetector(delay_us=5_000, boxes=2)

    with service(root / "worker", build=far, codecs={"jpeg": JpegCodec()}, sha256=far().sha256) as (
        made,
        store,
    ):
        link = MemoryLink(name="memory", endpoint=made, clock_us=clock_us, delay_us=2_000)
        near_ones: list[Slow] = []
        usual = SyntheticDetector.from_config

        def slow(config: Any) -> Slow:
            near_ones.append(Slow(usual(config)))
            return near_ones[-1]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(SyntheticDetector, "from_config", slow)
            agent = Agent(load_pipeline(path), run_dir=root / "run", link=link)
        full, smaller = near_ones or (Slow(None), Slow(None))
        try:
            yield House(root, agent, link, store, full, smaller)
        finally:
            agent.close()


def by(who: str, model: str | None = None) -> Callable[[Line], bool]:
    return lambda line: line["answered_by"] == who and model in (None, line["model"])


def test_near_then_smaller_then_tracked_then_missed_each_said_in_line_record_summary_and_report(
    tmp_path: Path,
) -> None:
    with house(tmp_path) as made:
        made.link.cut()
        made.agent.start()
        made.wait_for(by("near", FULL), 10, "near at its full input")
        made.full.extra_s = 5.0
        made.wait_for(by("near", SMALLER), 20, "near at its smaller input")
        made.smaller.extra_s = 5.0
        made.wait_for(by("missed"), 10, "missed")
        made.link.heal()
        made.wait_for(by("far"), 10, "far")
        answered = dict(made.agent.vitals().answered)
        summary = made.end()
        lines = sorted(made.lines(), key=lambda line: int(line["seq"]))
        _check_lines(lines)
        frames = summary["frames"]
        assert answered[AnsweredBy.TRACKED] >= 1
        assert frames["tracked"] == sum(line["answered_by"] == "tracked" for line in lines)
        assert frames["adds_up"]
        assert summary["near"]["smaller"] >= 20
        assert summary["facts"]["near_smaller"] == SMALLER
        assert summary["tracker"]["runs"] >= frames["tracked"]
        assert made.agent.broken == []
        rows = {row.id.seq: row for row in made.store.rows()}
        for line in lines:
            if line["outcome"] != "answered":
                continue
            row = rows[line["seq"]]
            assert row.answered_by == line["answered_by"]
            assert (row.model or "") == line["model"]
            assert ("age" in row.timing_us) is (line["answered_by"] == "tracked")
        assert made.store.counts()["tracked"] == frames["tracked"]
    run = read_run(tmp_path / "run")
    assert run.frames.count("tracked") == frames["tracked"]


def _check_lines(lines: list[Line]) -> None:
    """What is tracked says how old it is and of which model; it is never on time, and never older than allowed."""
    tracked = [line for line in lines if line["answered_by"] == "tracked"]
    assert tracked
    for line in tracked:
        assert 1 <= line["age_frames"] <= 5
        assert line["status"] == "ok"
        assert line["on_time"] is False
        assert line["model"] in (FULL, SMALLER, "synthetic")
        assert line["detections"], "nothing is left of it: then it is missed"
        parts = {name: ms for name, ms in line["timing"].items() if name != "age"}
        assert abs(sum(parts.values()) - line["latency_ms"]) < 0.01
        assert line["timing"]["age"] >= 25 * line["age_frames"]
    for line in lines:
        if line["answered_by"] != "tracked" and line["outcome"] == "answered":
            assert line["age_frames"] == 0
        if line["answered_by"] == "missed":
            assert line["detections"] is None
            assert line["reason"]


def test_far_results_that_come_too_late_are_carried_forward_to_the_frames_after(tmp_path: Path) -> None:
    # A band so wide that the link stays in budget: then a frame goes far every 300 ms to learn, and comes back late.
    with house(tmp_path, near=ONLY_FAR, max_age=12, band="1s") as made:
        made.agent.start()
        made.wait_for(by("far"), 10, "far")
        made.link.set_delay(130_000)
        first = len(made.lines())
        made.wait_for(lambda line: by("tracked")(line) and line["seq"] > first + 30, 20, "tracked")
        summary = made.end()
        tracked = [
            line for line in made.lines() if line["answered_by"] == "tracked" and line["seq"] > first + 30
        ]
        late = [line["seq"] for line in made.lines() if line["late_far"]]
        assert summary["late_far"] >= 3
        bases = {line["seq"] - line["age_frames"] for line in tracked}
        assert bases & set(late), "what came late is what the frames after it were answered with"
        assert {line["model"] for line in tracked} == {"synthetic"}
        assert {len(line["detections"]) for line in tracked} <= {1, 2}


def test_what_an_answer_showed_makes_its_record_and_the_next_frames_matter_more(tmp_path: Path) -> None:
    with house(tmp_path) as made:
        scheduler = made.agent.dispatcher.scheduler
        assert scheduler.priority("door", clock_us()) is Priority.LOW
        made.agent.start()
        made.wait_for(by("far"), 10, "far")
        assert scheduler.priority("door", clock_us()) is Priority.HIGH
        made.end()
        answered = {row.priority for row in made.store.rows() if row.answered_by == AnsweredBy.FAR}
        assert answered == {"high"}
