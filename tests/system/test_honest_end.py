"""What could not be kept is said: an agent never ends as if all were well when it is not."""

import json
from pathlib import Path
from statistics import median

import pytest

from edge.agent import Agent
from edge.config.pipeline import load_pipeline
from edge.outbox.memory_outbox import MemoryOutbox
from pipelines.errors import Retryable
from tests.support.eventually import eventually

PIPELINE = """\
version: 1
agent: gateway
state_dir: {root}/gateway
streams:
  door: {{source: {{kind: synthetic, size: 320x240, fps: 50}}}}
near: {{detector: {{kind: synthetic, delay: 2ms}}}}
sinks: [{{kind: jsonl, path: {sink}}}]
"""


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """The outbox of an agent made from here on takes nothing."""
    store = MemoryOutbox()
    store.fail = Retryable("no space left on device")
    monkeypatch.setattr("edge.assembly.SqliteOutbox", lambda *_, **__: store)


def ended_agent(root: Path, *, sink: str, answers: int = 20) -> Agent:
    """An agent that has given some answers and was closed."""
    path = root / "pipeline.yaml"
    path.write_text(PIPELINE.format(root=root, sink=sink))
    agent = Agent(load_pipeline(path), run_dir=root / "run")
    agent.start()
    eventually(lambda: sum(agent.counters.answered.values()) >= answers, 10, "answers")
    agent.close()
    return agent


def test_a_run_that_kept_everything_has_broken_nothing(tmp_path: Path):
    agent = ended_agent(tmp_path, sink=f"{tmp_path}/answers.jsonl")
    assert agent.broken == []
    assert json.loads((tmp_path / "run/summary.json").read_text())["frames"]["adds_up"] is True


@pytest.mark.alone
@pytest.mark.usefixtures("full_disk")
def test_answers_a_full_disk_did_not_take_are_live_and_on_time_and_named_at_the_end(tmp_path: Path):
    agent = ended_agent(tmp_path, sink=f"{tmp_path}/answers.jsonl")
    assert any("could not be kept in the outbox" in words for words in agent.broken)
    assert any("no space left" in words for words in agent.broken)
    given = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text().splitlines()]
    assert len(given) >= 20
    assert sum(line["on_time"] for line in given) >= 0.9 * len(given)


@pytest.mark.alone
@pytest.mark.usefixtures("full_disk")
def test_no_answer_waits_for_a_disk_that_is_known_to_take_nothing(tmp_path: Path):
    agent = ended_agent(tmp_path, sink=f"{tmp_path}/answers.jsonl", answers=60)
    given = [json.loads(line) for line in (tmp_path / "run/frames.jsonl").read_text().splitlines()]
    commits_ms = [line["timing"]["commit"] for line in given if line["answered_by"] == "near"]
    assert len(commits_ms) >= 50
    assert median(commits_ms) < 20
    assert agent.counters.uncommitted >= len(commits_ms), "each is counted all the same"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, which Linux has")
def test_answers_a_sink_did_not_take_are_named_at_the_end(tmp_path: Path):
    agent = ended_agent(tmp_path, sink="/dev/full")
    assert any("did not reach the sink jsonl" in words for words in agent.broken)
