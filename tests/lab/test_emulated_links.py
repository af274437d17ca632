"""What must not hurt on a real TCP link that goes bad: agent and worker in two namespaces of the kernel.

Needs root and ../shared/netlab; `make lab` runs it. Detectors are timers; the link is what is tested.
"""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support import netlab
from tests.support.eventually import eventually
from tests.support.netlab_house import House, Inside
from tests.support.watched import Line

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root"),
    pytest.mark.skipif(not netlab.NETLAB.is_file(), reason="../shared/netlab is not there"),
]

PORT = 7440
FPS = 15
DEADLINE_MS = 200
RTT_MS = 20
STANDSTILL_S = 0.3
WORKER = """\
version: 1
state_dir: {root}/worker
listen:
  {link}: {{address: "0.0.0.0:{port}", insecure: true}}
  http: null
models:
  thing:
    detector: {{kind: synthetic, delay: 10ms, labels: [thing]}}
"""
PIPELINE = """\
version: 1
agent: lab
state_dir: {root}/gateway
deadline: {deadline}ms
streams:
  cam: {{source: {{kind: synthetic, size: 640x480, fps: {fps}}}}}
{near}links:
  way: {{url: "{link}://{host}:{port}"}}
scheduler: {{policy: {policy}}}
sinks:
  - {{kind: stdout}}
"""
NEAR = """\
near:
  detector: {kind: synthetic, delay: 20ms, labels: [thing]}
"""
LINKS = ("zmq", "grpc")


class Lab:
    """A gateway that runs; `lines` are its answers as they came out."""

    def __init__(self, house: House, worker: Inside, agent: Inside) -> None:
        self.house = house
        self.wire = house.wire
        self.worker = worker
        self.agent = agent

    @property
    def lines(self) -> list[Line]:
        """`at_s`: the monotonic moment it came out."""
        told = zip(self.agent.lines, self.agent.read_s, strict=False)  # one more may come meanwhile
        return [line | {"at_s": read_s} for line, read_s in told]

    def since(self, moment_s: float, until_s: float = float("inf")) -> list[Line]:
        """Answers that came out between two monotonic moments."""
        return [line for line in self.lines if moment_s < line["at_s"] <= until_s]

    def wait_far(self, *, after_s: float, count: int = 1, within_s: float = 10.0) -> Line:
        """The first far answer on time that came out after `after_s`, once there are `count`."""

        def found() -> list[Line]:
            far = [x for x in self.since(after_s) if x["answered_by"] == "far" and x["on_time"]]
            return far if len(far) >= count else []

        return eventually(found, within_s, f"{count} far answers")[0]

    def let_pass(self, span_s: float) -> None:
        """Until answers of the next `span_s` are out: the camera goes on, so time is what answers tell."""
        until_s = time.monotonic() + span_s
        eventually(lambda: self.since(until_s), span_s + 5.0, f"answers after {span_s} s")

    def links(self) -> list[dict[str, Any]]:
        with (self.house.root / "run/link.jsonl").open() as file:
            return [json.loads(line) for line in file if line.endswith("\n")]

    def over_budget_after_s(self, moment_s: float) -> float:
        """How long after a monotonic moment the link was first said to be over budget."""
        shift_s = time.time() - time.monotonic()

        def found() -> list[float]:
            at_s = [float(x["unix_ms"]) / 1000 - shift_s for x in self.links() if not x["in_budget"]]
            return [s for s in at_s if s > moment_s]

        return eventually(found, 5.0, "a link over budget")[0] - moment_s

    def end(self) -> dict[str, Any]:
        """Stop the agent; its summary, whose laws are checked."""
        assert self.agent.stop() == 0, self.agent.log.read_text()[-3000:]
        summary: dict[str, Any] = json.loads((self.house.root / "run/summary.json").read_text())
        assert summary["frames"]["adds_up"]
        assert summary["frames"]["pending"] == 0
        return summary


@contextmanager
def lab(
    root: Path,
    *,
    way: dict[str, Any] | None = None,
    policy: str = "deadline",
    near: bool = True,
    link: str = "zmq",
    by_name: bool = False,
) -> Iterator[Lab]:
    """Agent and worker, and a first far answer given."""
    both = {"delay_ms": RTT_MS / 2, "rate_mbit": 50, "queue_ms": 100} | (way or {})
    with netlab.link({"up": both, "down": both}, cc="cubic") as wire:
        house = House(wire, root)
        try:
            (root / "worker.yaml").write_text(WORKER.format(root=root, port=PORT, link=link))
            worker = house.start(
                "cloud", ["-m", "nearfar", "cloud", str(root / "worker.yaml")], log="worker.log"
            )
            worker.wait_ready()
            host = house.name_worker() if by_name else wire.cloud_addr
            pipeline = PIPELINE.format(
                root=root,
                deadline=DEADLINE_MS,
                fps=FPS,
                near=NEAR if near else "",
                link=link,
                host=host,
                port=PORT,
                policy=policy,
            )
            (root / "pipeline.yaml").write_text(pipeline)
            command = ["-m", "nearfar", "edge", str(root / "pipeline.yaml"), "--run-dir", str(root / "run")]
            agent = house.start("edge", command, log="agent.log").wait_ready()
            made = Lab(house, worker, agent)
            made.wait_far(after_s=0.0, count=10)
            yield made
        finally:
            house.close()


def on_time(lines: list[Line]) -> float:
    return float(sum(line["on_time"] for line in lines) / len(lines))


@pytest.mark.parametrize("link", LINKS)
def test_a_half_open_connection_is_noticed_by_the_data_path_and_every_frame_answered_near(
    tmp_path: Path, link: str
) -> None:
    """F05, F30: a NAT forgets the flows; TCP would notice after a quarter of an hour."""
    with lab(tmp_path, link=link) as there:
        begun_s = time.monotonic()
        there.house.forget_flows()
        forgotten_s = time.monotonic()
        assert there.over_budget_after_s(begun_s) < 1.0 + forgotten_s - begun_s
        back_s = there.wait_far(after_s=_first_near_s(there, forgotten_s))["at_s"]
        assert back_s - forgotten_s < 1.5
        assert on_time(there.since(begun_s, back_s)) > 0.9
        eventually(lambda: _kept(there) >= len(there.lines) - FPS, 10.0, "the outbox on its way again")
        there.end()


def test_a_worker_that_moves_is_found_again_by_its_name(tmp_path: Path) -> None:
    """F30: the name is looked up for every connection."""
    with lab(tmp_path, by_name=True) as there:
        there.house.move_worker()
        moved_s = time.monotonic()
        back_s = there.wait_far(after_s=_first_near_s(there, moved_s))["at_s"]
        assert back_s - moved_s < 1.5
        there.end()


@pytest.mark.parametrize("link", LINKS)
def test_after_a_blackhole_of_30_s_the_next_far_answer_is_there_within_a_second_and_a_half(
    tmp_path: Path, link: str
) -> None:
    """F23: TCP itself resumes about 7 s late."""
    with lab(tmp_path, link=link) as there:
        gone_s = there.wire.set(both={"outage": "drop"})
        there.let_pass(30.0)
        healed_s = there.wire.set(both={"outage": False})
        back_s = there.wait_far(after_s=healed_s)["at_s"]
        during = there.since(gone_s + 0.1, healed_s)
        assert back_s - healed_s < 1.5
        assert {line["answered_by"] for line in during} <= {"near", "missed"}
        assert on_time(during) > 0.97
        there.end()


def test_after_a_short_standstill_the_connection_that_survived_is_used_at_once(tmp_path: Path) -> None:
    """F23: nothing is torn down that still works; the next frame, within 300 ms and a round trip, is answered far."""
    with lab(tmp_path) as there:
        still = [{"t": 0, "both": {"outage": "hold"}}, {"t": STANDSTILL_S, "both": {"outage": False}}]
        healed_s = there.wire.play(still) + STANDSTILL_S
        back_s = there.wait_far(after_s=healed_s)["at_s"]
        assert back_s - healed_s < 0.3 + RTT_MS / 1000 + 1 / FPS
        assert [link["connections"] for link in there.end()["links"].values()] == [1]


def test_replies_that_come_late_are_matched_by_identity_and_correct_the_record(tmp_path: Path) -> None:
    """F09: with a round trip of 300 ms every reply is for a frame that has its answer already."""
    with lab(tmp_path, policy="far_only", near=False) as there:
        there.wire.set(both={"delay_ms": 150})
        there.let_pass(4.0)
        healed_s = there.wire.set(both={"delay_ms": RTT_MS / 2})
        there.wait_far(after_s=healed_s, count=FPS)
        summary = there.end()
        with (there.house.root / "run/frames.jsonl").open() as file:
            lines = [json.loads(line) for line in file]
        late = [line for line in lines if line["late_far"]]
        assert summary["late_far"] >= len(late) >= 2 * FPS
        assert {(line["answered_by"], line["detections"]) for line in late} == {("missed", None)}
        assert len({line["seq"] for line in lines}) == len(lines) == summary["frames"]["captured"]


def test_a_camera_faster_than_the_uplink_never_makes_answers_older(tmp_path: Path) -> None:
    """F20: 15 frames a second over a link that carries about nine; what is not carried is counted, never queued."""
    with lab(tmp_path, near=False, way={"rate_mbit": 0.8}) as there:
        begun_s = time.monotonic()
        there.let_pass(15.0)
        answered = there.since(begun_s)
        ages_ms = [line["latency_ms"] for line in answered]
        assert sorted(ages_ms)[int(0.99 * len(ages_ms))] < DEADLINE_MS + 50
        halves = ages_ms[: len(ages_ms) // 2], ages_ms[len(ages_ms) // 2 :]
        assert max(halves[1]) < max(halves[0]) + 100, "no lag builds up"
        assert sum(line["answered_by"] == "far" for line in answered) > FPS
        summary = there.end()
        assert sum(summary["frames"]["shed"].values()) + summary["frames"]["missed"] > 0


@pytest.mark.parametrize("link", LINKS)
def test_where_pings_pass_and_frames_vanish_near_answers_and_the_reason_says_so(
    tmp_path: Path, link: str
) -> None:
    """F29: an MTU blackhole."""
    with lab(tmp_path, link=link) as there:
        there.house.lose_large_packets(begin=True)
        begun_s = time.monotonic()
        there.let_pass(8.0)
        healed_s = time.monotonic()
        there.house.lose_large_packets(begin=False)
        during = there.since(begun_s, healed_s)
        settled = there.since(begun_s + 2.0, healed_s)
        assert on_time(during) > 0.95
        assert {line["answered_by"] for line in settled} <= {"near", "missed"}
        assert any("vanish" in sight["reason"] for sight in there.links()), _reasons(there)
        there.wait_far(after_s=healed_s, within_s=10.0)
        there.end()


def _first_near_s(there: Lab, moment_s: float) -> float:
    """When near first had to answer after `moment_s`: what was under way then had still come."""

    def found() -> list[Line]:
        return [x for x in there.since(moment_s) if x["answered_by"] != "far"]

    return float(eventually(found, 5.0, "a near answer")[0]["at_s"])


def _kept(there: Lab) -> int:
    """Answers in the worker's store."""
    from cloud.store.records import open_store  # noqa: PLC0415 - SQLAlchemy loads slowly

    store = open_store(f"sqlite:///{there.house.root}/worker/records.db", read_only=True)
    try:
        return sum(1 for _ in store.identities())
    finally:
        store.close()


def _reasons(there: Lab) -> set[str]:
    return {sight["reason"] for sight in there.links()}
