"""A camera that gives pictures as fast as it can: every one is counted, and none of it hurts the others."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from edge.agent import Agent
from edge.config.pipeline import load_pipeline
from tests.support.eventually import eventually

PICTURES = 20_000
PIPELINE = """\
version: 1
agent: gateway
state_dir: {root}/gateway
deadline: 200ms
streams:
  flood: {{source: {{kind: synthetic, size: 64x48, pace: as_fast_as_possible{count}}}}}
near:
  detector: {{kind: synthetic, delay: 5ms, labels: [thing]}}
"""


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Callable[[str], Agent]]:
    agents: list[Agent] = []

    def make(count: str) -> Agent:
        path = tmp_path / "pipeline.yaml"
        path.write_text(PIPELINE.format(root=tmp_path, count=count))
        agents.append(Agent(load_pipeline(path), run_dir=tmp_path / "run"))
        return agents[0]

    yield make
    for agent in agents:
        agent.close()


def law_holds(agent: Agent, root: Path) -> dict[str, Any]:
    """The summary after the end, whose law is exact and accuses nobody."""
    summary: dict[str, Any] = json.loads((root / "run" / "summary.json").read_text())
    assert summary["frames"]["adds_up"]
    assert summary["frames"]["pending"] == 0
    # Lines that did not fit are lost and owned up to; that frames were, or ended twice, would be untrue.
    assert [words for words in agent.broken if "no line in the run directory" not in words] == []
    assert summary["run_dir"]["lines"] + summary["run_dir"]["lost"] == summary["frames"]["captured"]
    frames: dict[str, Any] = summary["frames"]
    return frames


def test_a_camera_that_floods_is_counted_to_the_last_frame_and_near_still_answers(
    made: Callable[[str], Agent], tmp_path: Path
) -> None:
    agent = made(f", count: {PICTURES}")
    looks: list[int] = []
    at_once = Event()
    at_once.set()
    agent.start()

    def ended() -> bool:
        looks.append(agent.dispatcher.unheard)
        return agent.wait(at_once, poll_s=0.005)

    eventually(ended, 60.0, "the end of the flood")
    agent.close()
    frames = law_holds(agent, tmp_path)
    assert frames["captured"] == PICTURES
    assert frames["near"] > 10
    assert max(looks) < PICTURES // 40, "what waits before the dispatcher does not grow with the flood"


def test_a_flood_that_is_cut_off_in_the_middle_is_counted_all_the_same(
    made: Callable[[str], Agent], tmp_path: Path
) -> None:
    agent = made("")
    agent.start()
    eventually(lambda: agent.counters.captured > 3_000, 30.0, "a flood")
    agent.close()
    law_holds(agent, tmp_path)
