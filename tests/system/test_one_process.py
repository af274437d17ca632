"""The whole job in one process: a real agent, a real service, and a link in memory that goes bad and heals."""

import json
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest

from cloud.service import Service
from cloud.store.records import RecordStore
from edge.agent import Agent
from edge.config.pipeline import load_pipeline
from edge.links.memory import MemoryLink
from pipelines.codecs.jpeg import JpegCodec
from pipelines.detectors.synthetic import SyntheticDetector
from tests.support.eventually import eventually
from tests.support.workers import clock_us, service

pytestmark = pytest.mark.alone

PIPELINE = """\
version: 1
agent: gateway
state_dir: {root}/gateway
deadline: 400ms
rtt_budget: {{fall_back_above: 200ms, return_below: 100ms}}
streams:
  door: {{source: {{kind: synthetic, size: 320x240, fps: 20}}}}
near:
  detector: {{kind: synthetic, delay: 15ms, labels: [thing]}}
  accuracy: 0.4
sinks:
  - {{kind: jsonl, path: {root}/answers.jsonl}}
"""
Answer = dict[str, Any]


def far_detector() -> SyntheticDetector:
    return SyntheticDetector(delay_us=10_000, boxes=2)


@dataclass
class House:
    root: Path
    agent: Agent
    link: MemoryLink
    service: Service
    store: RecordStore

    def answers(self) -> list[Answer]:
        """What the sink was given so far; a line being written is left for later."""
        path = self.root / "answers.jsonl"
        text = path.read_text() if path.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def wait_run(self, by: str, count: int, within_s: float = 10.0) -> None:
        """Until the newest `count` answers in a row are all by `by`, on time, and none of them was there before."""
        before = len(self.answers())

        def in_a_row() -> bool:
            newest = self.answers()[before:][-count:]
            return len(newest) == count and all(a["answered_by"] == by and a["on_time"] for a in newest)

        eventually(in_a_row, within_s, f"{count} answers in a row by {by}")

    def end(self, *, drain_us: int = 10_000_000) -> dict[str, Any]:
        """Stop the camera, let the cloud learn everything, close; the summary."""
        self.agent.stop_capture()
        self.agent.drain(threading.Event(), drain_us)
        self.agent.close()
        summary: dict[str, Any] = json.loads((self.root / "run" / "summary.json").read_text())
        return summary


class Start(Protocol):
    def __call__(self, *, cut: bool = False) -> House:
        """The house, begun; `cut`: its link is down from the beginning."""
        ...


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    (tmp_path / "worker").mkdir()
    path = tmp_path / "pipeline.yaml"
    path.write_text(PIPELINE.format(root=tmp_path))
    with service(
        tmp_path / "worker", build=far_detector, codecs={"jpeg": JpegCodec()}, sha256=far_detector().sha256
    ) as (made, store):
        link = MemoryLink(name="memory", endpoint=made, clock_us=clock_us, delay_us=2_000)
        agent = Agent(load_pipeline(path), run_dir=tmp_path / "run", link=link)

        def begin(*, cut: bool = False) -> House:
            if cut:
                link.cut()
            agent.start()
            return House(tmp_path, agent, link, made, store)

        yield begin
        agent.close()


def identities(answers: list[Answer]) -> set[tuple[str, str, int]]:
    return {(a["run"], a["stream"], a["seq"]) for a in answers}


def check_house(house: House, summary: dict[str, Any]) -> Counter[str]:
    """The laws at the end of a drained run; how many answers each gave."""
    answers = house.answers()
    frames = summary["frames"]
    given = Counter(a["answered_by"] for a in answers)
    assert len(identities(answers)) == len(answers), "a frame was answered twice"
    assert {by: frames[by] for by in ("near", "far", "missed")} == {
        by: given[by] for by in ("near", "far", "missed")
    }
    assert frames["captured"] == len(answers) + sum(frames["shed"].values()) + frames["gated"]
    assert frames["pending"] == 0
    assert house.agent.broken == []
    records = [(i.run.hex(), i.stream, i.seq) for i in house.store.identities()]
    assert len(records) == len(set(records))
    assert set(records) == identities(answers)
    return given


def test_far_answers_while_healthy_near_while_cut_far_again_and_the_cloud_ends_with_every_answer(
    start: Start,
) -> None:
    house = start()
    house.wait_run("far", 20)
    house.link.cut()
    house.wait_run("near", 20)
    house.link.heal()
    house.wait_run("far", 20)
    given = check_house(house, house.end())
    assert given["far"] >= 40
    assert given["near"] >= 20
    assert given["missed"] == 0


def test_a_slow_link_is_left_and_found_again(start: Start) -> None:
    house = start()
    house.wait_run("far", 10)
    house.link.set_delay(300_000)
    house.wait_run("near", 20)
    house.link.set_delay(2_000)
    house.wait_run("far", 10)
    assert check_house(house, house.end())["missed"] == 0


def test_a_link_that_falls_silent_costs_no_answer_and_comes_back(start: Start) -> None:
    house = start()
    house.wait_run("far", 10)
    house.link.stall()
    house.wait_run("near", 20)
    house.link.resume()
    house.wait_run("far", 10)
    assert check_house(house, house.end())["missed"] == 0


def test_answers_given_without_a_cloud_are_kept_and_go_up_when_it_is_there(
    start: Start,
) -> None:
    house = start(cut=True)
    house.wait_run("near", 20)
    house.link.heal()
    house.wait_run("far", 5)
    given = check_house(house, house.end())
    assert given["near"] >= 20


def test_the_agent_stops_within_two_seconds_while_the_link_is_down_and_keeps_what_the_cloud_lacks(
    start: Start,
) -> None:
    house = start()
    house.wait_run("far", 5)
    house.link.cut()
    house.wait_run("near", 10)
    begun_us = clock_us()
    house.agent.close()
    assert clock_us() - begun_us < 2_500_000
    summary = json.loads((house.root / "run" / "summary.json").read_text())
    assert summary["frames"]["pending"] == 0
    assert summary["outbox"]["pending"] >= 10
    assert house.agent.broken == []
