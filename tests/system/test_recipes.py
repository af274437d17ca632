"""Every packaged recipe runs as it stands, next to its worker: real processes, real detectors, real sources.

What a recipe leaves to its reader (a camera, a model, a folder of pictures) is made here and given by `--set`.
"""

import json
import socket
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import yaml

from cloud.store.records import open_store
from tests.support.eventually import eventually
from tests.support.mjpeg import endless, mjpeg
from tests.support.models import write_centerface, write_yolox
from tests.support.rig import Process, free_port

RECIPES = Path(__file__).parents[2] / "pipelines" / "recipes"
FRAMES = 40


@dataclass(frozen=True)
class Pair:
    """A recipe and the worker it names; `agent_set` and `worker_set` stand in for what its reader has."""

    pipeline: str
    worker: str
    agent_set: Callable[[Path], Mapping[str, object]] = lambda _: {}
    worker_set: Callable[[Path], Mapping[str, object]] = lambda _: {}
    camera: str = ""
    pictures_leave: bool = True


def faces(root: Path) -> Mapping[str, object]:
    return {
        "streams.street.source.path": clip(root / "street.avi"),
        "near.detector.model": write_centerface(root / "faces.onnx"),
    }


def faces_worker(root: Path) -> Mapping[str, object]:
    return {"models.faces-320.detector.model": write_centerface(root / "faces-far.onnx")}


PAIRS = [
    Pair("synthetic", "worker-synthetic"),
    Pair("deliver", "worker-synthetic"),
    Pair("results-only", "worker-synthetic", pictures_leave=False),
    Pair(
        "hard-examples",
        "worker-hard-examples",
        worker_set=lambda root: {"store.payloads.path": root / "pictures"},
        pictures_leave=False,
    ),
    Pair("face-gate", "worker-faces", agent_set=faces, worker_set=faces_worker),
    Pair("compose-gateway", "compose-worker", agent_set=faces, worker_set=faces_worker),
    Pair(
        "camera",
        "worker-faces",
        camera="door",
        agent_set=lambda root: {"near.detector.model": write_centerface(root / "faces.onnx")},
        worker_set=faces_worker,
    ),
    Pair(
        "people",
        "worker-people",
        camera="hall",
        agent_set=lambda root: {"near.detector.model": write_yolox(root / "near.onnx", classes=80)},
        worker_set=lambda root: {
            "models.people-512.detector.model": write_yolox(root / "far.onnx", classes=80)
        },
    ),
    Pair(
        "thermal",
        "worker-thermal",
        agent_set=lambda root: {"streams.kiln.source.path": thermal_pictures(root / "kiln")},
    ),
]


def test_no_recipe_is_left_out():
    known = {name for pair in PAIRS for name in (pair.pipeline, pair.worker)}
    assert {path.stem for path in RECIPES.glob("*.yaml")} == known


def clip(path: Path) -> Path:
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), 15, (640, 272))
    for number in range(30):
        picture = np.full((272, 640, 3), 30, np.uint8)
        picture[100:140, 10 + 15 * number : 50 + 15 * number] = 240
        writer.write(picture)
    writer.release()
    return path


def thermal_pictures(folder: Path) -> Path:
    folder.mkdir()
    rng = np.random.default_rng(7)
    for number in range(12):
        picture = rng.integers(29_000, 31_000, (120, 160)).astype(np.uint16)
        picture[40:60, 10 * number : 10 * number + 20] = 42_000
        cv2.imwrite(str(folder / f"{number}.png"), picture)
    return folder


@dataclass
class House:
    """One recipe at work; `lines` are the answers of its run directory once it has ended."""

    pair: Pair
    root: Path
    agent: Process
    worker: Process

    def finish(self) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        code = self.agent.popen.wait(60)
        self.agent.end()
        assert code == 0, self.agent.log.read_text()[-3000:]
        assert self.worker.stop() == 0, self.worker.log.read_text()[-3000:]
        lines = [json.loads(line) for line in (self.root / "run" / "frames.jsonl").read_text().splitlines()]
        return lines, json.loads((self.root / "run" / "summary.json").read_text())

    def records(self) -> set[tuple[str, str, int]]:
        store = open_store(f"sqlite:///{self.root / 'worker' / 'records.db'}", read_only=True)
        try:
            return {(i.run.hex(), i.stream, i.seq) for i in store.identities()}
        finally:
            store.close()


@pytest.fixture
def start(tmp_path: Path) -> Any:
    with ExitStack() as stack:

        def begin(pair: Pair, *, sinks: str = "[{kind: stdout}]") -> House:
            zmq_port, grpc_port = free_port(), free_port()
            worker_sets = {
                "state_dir": tmp_path / "worker",
                **_listeners(pair.worker, zmq_port, grpc_port),
                **pair.worker_set(tmp_path),
            }
            worker = _run(stack, tmp_path, "cloud", pair.worker, worker_sets)
            (tmp_path / "agent").mkdir()
            agent_sets: dict[str, object] = {
                "state_dir": tmp_path / "agent",
                "deadline": "400ms",  # a loaded test machine is no gateway; what is promised by 100 ms is benchmarked
                "sinks": sinks,
                **pair.agent_set(tmp_path),
                **_links(pair.pipeline, zmq_port, grpc_port),
            }
            if pair.camera:
                server = stack.enter_context(mjpeg(endless))
                agent_sets[f"streams.{pair.camera}.source.url"] = server.url
            if pair.pipeline == "compose-gateway":
                agent_sets["http.address"] = "127.0.0.1:0"
            extra = ["--frames", str(FRAMES), "--run-dir", str(tmp_path / "run")]
            agent = _run(stack, tmp_path, "edge", pair.pipeline, agent_sets, *extra)
            return House(pair, tmp_path, agent, worker)

        yield begin


def _run(
    stack: ExitStack,
    root: Path,
    command: str,
    recipe: str,
    sets: Mapping[str, object],
    *extra: str,
) -> Process:
    arguments = [command, str(RECIPES / f"{recipe}.yaml"), *extra]
    for key, value in sets.items():
        arguments += ["--set", f"{key}={value}"]
    process = Process(arguments, root / f"{command}.log")
    stack.callback(process.end)
    return process.wait_ready()


def _listeners(recipe: str, zmq_port: int, grpc_port: int) -> dict[str, object]:
    text = (RECIPES / f"{recipe}.yaml").read_text()
    ports = {"zmq": zmq_port, "grpc": grpc_port, "http": 0}
    return {
        f"listen.{name}.address": f"127.0.0.1:{port}"
        for name, port in ports.items()
        if f"  {name}: {{" in text
    }


def _links(recipe: str, zmq_port: int, grpc_port: int) -> dict[str, object]:
    """Every link of the recipe leads to the one worker; two of them reach it by two addresses."""
    ports = {"zmq": zmq_port, "grpc": grpc_port}
    links = yaml.safe_load((RECIPES / f"{recipe}.yaml").read_text())["links"]
    schemes = {name: link["url"].partition("://")[0] for name, link in links.items()}
    return {f"links.{name}.url": f"{s}://127.0.0.1:{ports[s]}" for name, s in schemes.items()}


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.pipeline)
def test_a_recipe_answers_every_frame_and_the_cloud_learns_every_answer(pair: Pair, start: Any):
    house = start(pair)
    lines, summary = house.finish()
    answered = {(x["run"], x["stream"], x["seq"]) for x in lines if x["outcome"] == "answered"}
    assert len(lines) == FRAMES
    assert summary["frames"]["adds_up"]
    assert len(answered) > 0
    assert house.records() == answered
    far = [x for x in lines if x["answered_by"] == "far"]
    assert bool(far) is pair.pictures_leave
    assert (summary["far"]["payload_bytes"] > 0) is pair.pictures_leave


def test_the_actuator_next_door_reads_the_answers_of_the_face_gate(start: Any, tmp_path: Path):
    path = tmp_path / "answers.sock"
    (pair,) = (p for p in PAIRS if p.pipeline == "face-gate")
    house = start(pair, sinks=f"[{{kind: socket, path: {path}}}]")
    eventually(path.exists, 10, "the socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
        door.connect(str(path))
        with door.makefile() as lines:
            heard = [json.loads(next(lines)) for _ in range(5)]
    house.finish()
    assert all(line["answered_by"] in ("near", "far") for line in heard)
    assert all(d["label"] == "face" for line in heard for d in line["detections"])


def test_thermal_pictures_travel_with_every_bit(start: Any):
    (pair,) = (p for p in PAIRS if p.pipeline == "thermal")
    lines, _ = start(pair).finish()
    encodings = [x["encoding"] for x in lines if x["answered_by"] == "far"]
    assert encodings
    assert {(e["codec"], e["bits"], e["width"], e["height"]) for e in encodings} == {("zstd", 16, 160, 120)}
