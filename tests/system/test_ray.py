"""A worker on a real Ray: the same answers as a worker alone, and nothing lost when replicas die or are taken away."""

import json
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from tests.support.eventually import eventually
from tests.support.postgres import PostgresServer
from tests.support.ray_house import RayHouse
from tests.support.rig import Process, Rig, rig
from tests.support.sites import get
from tests.support.workers import WorkerProcess

pytestmark = [
    pytest.mark.alone,
    pytest.mark.service("ray"),
    pytest.mark.service("postgres"),
    pytest.mark.timeout(240),
]

CLIP = """\
version: 1
agent: {agent}
state_dir: {root}/{agent}
deadline: 5s
streams:
  cam: {{source: {{kind: file, path: {root}/clip.mkv, frames: every}}}}
near: {{detector: {{kind: synthetic, delay: 5ms, labels: [near-thing]}}}}
links: {{cable: {{url: "{url}"}}}}
scheduler: {{policy: far_only, ladder: [{{scale: 1, codec: png}}]}}
sinks: [{{kind: stdout}}]
"""


@pytest.fixture(scope="module")
def house(postgres: PostgresServer) -> Iterator[RayHouse]:
    with tempfile.TemporaryDirectory(prefix="nearfar-ray-") as root:
        made = RayHouse(Path(root), postgres.new_url())
        try:
            yield made
            made.stop()
        finally:
            made.kill()


@pytest.fixture
def agent(house: RayHouse, tmp_path: Path) -> Iterator[Rig]:
    """One that sends 25 frames a second, far answers coming."""
    with rig(tmp_path, link="grpc", link_port=house.port) as made:
        made.start_agent()
        made.wait_answers("far", 10, within_s=20.0)
        yield made


def ends_with_everything_kept(agent: Rig, house: RayHouse) -> None:
    """The agent drains; the cloud has every answer that was given, and nearly all were given in time, however busy
    starting replicas kept the machine."""
    agent.stop_agent(within_s=15.0)
    answered = set(answered_in(agent))
    assert answered == set(agent.seen_identities()) != set()
    assert answered - set(house.records()) == set(), "lost"
    assert sum(a["on_time"] for a in agent.seen) >= 0.9 * len(agent.seen)


def answered_in(agent: Rig) -> list[tuple[str, str, int]]:
    with (agent.run_dir / "frames.jsonl").open() as file:
        lines = [json.loads(line) for line in file]
    return [(x["run"], x["stream"], x["seq"]) for x in lines if x["outcome"] == "answered"]


def detections_of(root: Path, name: str, url: str) -> dict[int, Any]:
    """What an agent on the clip was told by far, by seq; there is no far yet for its first frames."""
    path = root / f"{name}.yaml"
    path.write_text(CLIP.format(root=root, agent=name, url=url))
    process = Process(["edge", str(path), "--run-dir", str(root / f"run-{name}")], root / f"{name}.log")
    try:
        assert process.popen.wait(60) == 0, process.log.read_text()[-3000:]
    finally:
        process.end()
    return {line["seq"]: line["detections"] for line in process.lines if line["answered_by"] == "far"}


def test_it_says_where_agents_find_it_and_is_ready(house: RayHouse) -> None:
    assert house.ready["grpc"] == f"grpc://0.0.0.0:{house.port}"
    assert house.ready["replicas"] == len(house.replicas()) == 2
    assert get(f"{house.ready['http']}/readyz") == "ready\n"


def test_a_clip_gets_the_same_answers_as_from_a_worker_alone(house: RayHouse, tmp_path: Path) -> None:
    clip = cv2.VideoWriter(str(tmp_path / "clip.mkv"), cv2.VideoWriter.fourcc(*"FFV1"), 25, (160, 120))
    for step in range(60):  # each picture brighter, and each answer another
        clip.write(np.full((120, 160, 3), 4 * step, np.uint8))
    clip.release()
    alone = WorkerProcess(
        tmp_path / "alone", sets=("listen.grpc.address='127.0.0.1:0'", "models.synthetic.detector.boxes=1")
    )
    try:
        wanted = detections_of(tmp_path, "alone-agent", str(alone.ready["grpc"]))
    finally:
        alone.kill()
    got = detections_of(tmp_path, "ray-agent", f"grpc://127.0.0.1:{house.port}")
    both = wanted.keys() & got.keys()
    assert len(both) >= 30
    assert {seq: got[seq] for seq in both} == {seq: wanted[seq] for seq in both}
    assert len({json.dumps(got[seq]) for seq in both}) > 20, "the answers follow the pictures"


def test_a_killed_replica_costs_no_answer_and_no_record(house: RayHouse, agent: Rig) -> None:
    for victim in house.replicas():  # whichever of them has the live lane
        seen = len(agent.answers)
        os.kill(victim, signal.SIGKILL)
        agent.wait_more(10)
        agent.wait_far_on_time(after=seen + 10, within_s=30.0)
        eventually(
            lambda gone=victim: len(house.replicas()) == 2 and gone not in house.replicas(),  # type: ignore[misc]
            40.0,
            "another in its place",
        )
    ends_with_everything_kept(agent, house)


def test_replicas_replaced_and_taken_away_cost_no_answer_and_no_record(house: RayHouse, agent: Rig) -> None:
    first = house.replicas()
    house.scale(2)
    both = house.replicas()
    assert not set(both) & set(first), "each was replaced"
    house.scale(1)
    assert set(house.replicas()) < set(both), "the other was left alone"
    agent.wait_far_on_time(after=len(agent.answers), within_s=5.0)
    assert "drained only in part" not in house.log.read_text()
    said = (agent.root / "agent.log").read_text()
    assert "the worker closed the connection" in said, "it was told the end of its streams"
    assert "internal:" not in said, "no stream was cut"
    ends_with_everything_kept(agent, house)
