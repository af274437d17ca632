"""An agent that cannot be made leaves nothing behind: no thread, no socket, no lock, no open file."""

import os
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import psutil
import pytest

import edge.assembly
from edge.agent import Agent
from edge.config.pipeline import PipelineConfig, load_pipeline
from edge.outbox.stats import OutboxStats
from edge.telemetry.promises import broken_promises
from pipelines.errors import Fatal, NearfarError

PIPELINE = """\
version: 1
agent: gateway
state_dir: {root}/gateway
streams:
  clip: {{source: {{kind: file, path: {root}/clip.avi}}}}
  other: {{source: {{kind: file, path: {root}/{other}.avi}}}}
near: {{detector: {{kind: synthetic, delay: 1ms}}}}
links: {{cable: {{url: "{link}://127.0.0.1:1"}}}}
sinks: [{{kind: socket, path: {root}/s}}, {{kind: jsonl, path: {root}/answers.jsonl}}]
"""


@pytest.fixture
def root() -> Iterator[Path]:
    # Not tmp_path: a socket's path must be short.
    with tempfile.TemporaryDirectory() as made:
        writer = cv2.VideoWriter(f"{made}/clip.avi", cv2.VideoWriter.fourcc(*"MJPG"), 10, (64, 48))
        for _ in range(3):
            writer.write(np.zeros((48, 64, 3), np.uint8))
        writer.release()
        yield Path(made)


def config(root: Path, *, other: str = "clip", link: str = "zmq") -> PipelineConfig:
    path = root / "pipeline.yaml"
    path.write_text(PIPELINE.format(root=root, other=other, link=link))
    return load_pipeline(path)


def held(root: Path) -> set[str]:
    """What this process holds below `root`, and its threads."""
    files = {file.path for file in psutil.Process().open_files() if file.path.startswith(os.fspath(root))}
    sockets = {str(c.laddr) for c in psutil.Process().net_connections("unix") if str(root) in str(c.laddr)}
    return files | sockets | {thread.name for thread in threading.enumerate()}


@pytest.mark.parametrize("link", ["zmq", "grpc"])
def test_an_agent_that_fails_at_its_last_part_has_let_go_of_all_the_others(
    root: Path, link: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = config(root, link=link)
    before = held(root)

    def broken(**_: Any) -> None:
        assert (root / "s").exists(), "it fails late"
        raise Fatal("no dispatcher today")

    with monkeypatch.context() as patch:
        patch.setattr(edge.assembly, "Dispatcher", broken)
        with pytest.raises(Fatal, match="no dispatcher today"):
            Agent(given, run_dir=root / "run")
    assert held(root) == before
    assert not (root / "s").exists()
    Agent(given, run_dir=root / "run").close()  # its state directory is free again


def test_of_several_clips_one_that_is_missing_leaves_none_open(root: Path) -> None:
    before = held(root)
    with pytest.raises(NearfarError, match="missing"):
        Agent(config(root, other="missing"), run_dir=root / "run")
    assert held(root) == before
    assert not (root / "run").exists(), "an earlier run is set aside only by one that can begin"


def test_an_agent_that_was_never_started_can_be_closed(root: Path) -> None:
    before = held(root)
    agent = Agent(config(root), run_dir=root / "run")
    agent.close()
    assert held(root) == before


@pytest.mark.parametrize(
    ("unaccounted", "said"),
    [(0, []), (2, ["2 frames are unaccounted for"]), (-1, ["1 frames ended more than once"])],
)
def test_frames_that_do_not_add_up_are_named_by_how_many_they_are(unaccounted: int, said: list[str]) -> None:
    assert (
        broken_promises(
            source_errors={}, unaccounted=unaccounted, outbox=OutboxStats(), kept=True, sinks=(), run_dir=None
        )
        == said
    )


@pytest.mark.parametrize(
    ("outbox", "said"),
    [
        (OutboxStats(uncommitted=3, last_error="full"), "3 answers could not be kept in the outbox (full)"),
        (
            OutboxStats(payloads_uncommitted=51, last_error="full"),
            "51 pictures could not be kept in the outbox (full)",
        ),
        (
            OutboxStats(last_error="full"),
            "the outbox could not write its end in time (full): the cloud may hear of frames as interrupted",
        ),
    ],
)
def test_an_outbox_that_could_not_keep_something_says_what_it_was(outbox: OutboxStats, said: str) -> None:
    broken = broken_promises(
        source_errors={}, unaccounted=0, outbox=outbox, kept=False, sinks=(), run_dir=None
    )
    assert broken == [said]
