"""An agent with two links in one process: who carries frames and records, and what it costs."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from cloud.service import Service
from edge.agent import Agent
from edge.config.pipeline import load_pipeline
from edge.links.memory import MemoryLink
from pipelines.codecs.jpeg import JpegCodec
from pipelines.detectors.synthetic import SyntheticDetector
from tests.support.gateway import Gateway
from tests.support.workers import clock_us, service

pytestmark = pytest.mark.alone

PIPELINE = """\
version: 1
agent: gateway
state_dir: {root}/gateway
deadline: 2s
streams:
  door: {{source: {{kind: synthetic, size: 320x240, fps: {fps}, count: {count}}}, priority: high}}
near: {{detector: {{kind: synthetic, delay: 5ms, labels: [thing]}}, accuracy: 0.4}}
links:
  lte: {{url: "zmq://127.0.0.1:1", metered: true{budget}}}
  cable: {{url: "zmq://127.0.0.1:2"}}
scheduler: {{policy: {policy}{more}}}
"""


def far_detector() -> SyntheticDetector:
    return SyntheticDetector(delay_us=10_000, boxes=2)


class House:
    """The agent, and by name its links and the workers behind them, which share a record store."""

    def __init__(self, gateway: Gateway, links: dict[str, MemoryLink], workers: dict[str, Service]) -> None:
        self.gateway, self.agent = gateway, gateway.agent
        self.links, self.workers = links, workers

    def backfilled(self, link: str) -> int:
        """Records that this worker committed from the bulk lane."""
        return int(self.workers[link].metrics.value("nearfar_worker_records_total", source="backfill"))

    def far_over(self) -> Counter[str]:
        return Counter(x["link"] for x in self.gateway.lines() if x["answered_by"] == "far")


Build = Callable[..., House]


@pytest.fixture
def build(tmp_path: Path) -> Iterator[Build]:
    with ExitStack() as stack:

        def make(
            *, count: int = 100, fps: int = 50, policy: str = "deadline", more: str = "", budget: str = ""
        ) -> House:
            (tmp_path / "worker").mkdir()
            path = tmp_path / "pipeline.yaml"
            path.write_text(
                PIPELINE.format(root=tmp_path, count=count, fps=fps, policy=policy, more=more, budget=budget)
            )
            workers, links = {}, {}
            for name in ("lte", "cable"):
                workers[name], store = stack.enter_context(
                    service(
                        tmp_path / "worker",
                        build=far_detector,
                        codecs={"jpeg": JpegCodec()},
                        sha256=far_detector().sha256,
                    )
                )
                links[name] = MemoryLink(name=name, endpoint=workers[name], clock_us=clock_us, delay_us=1_000)
            agent = Agent(load_pipeline(path), run_dir=tmp_path / "run", link=tuple(links.values()))
            stack.callback(agent.close)
            return House(Gateway(tmp_path, agent, workers["lte"], store), links, workers)

        yield make


def test_frames_that_matter_go_over_both_links_and_leave_one_record_each(build: Build) -> None:
    house = build(more=", duplicate: {priorities: [high], share: 100%}")
    summary = house.gateway.run()
    lines = house.gateway.lines()
    assert summary["frames"]["far"] >= 90
    assert {x["link"] for x in lines if x["answered_by"] == "far"} <= {"lte", "cable"}
    assert summary["far"]["offloaded"] >= 1.5 * summary["frames"]["far"]
    got = [w.metrics.value("nearfar_worker_frames_admitted_total") for w in house.workers.values()]
    assert min(got) >= 70, "both workers were asked"
    records = house.gateway.store.identities()
    assert len(records) == len(set(records)) == len([x for x in lines if x["outcome"] == "answered"])


def test_each_link_is_in_the_summary_with_what_it_carried(build: Build) -> None:
    house = build()
    summary = house.gateway.run()
    links: dict[str, Any] = summary["links"]
    assert list(links) == ["lte", "cable"]
    assert links["lte"]["metered"]
    assert not links["cable"]["metered"]
    assert all(link["connections"] == 1 and link["in_budget"] for link in links.values())
    assert sum(house.far_over().values()) == summary["frames"]["far"] >= 90
    assert set(house.far_over()) <= {"lte", "cable"}


def test_records_go_over_the_link_that_costs_nothing_and_none_goes_up_twice(build: Build) -> None:
    house = build(policy="near_only", fps=25)
    near = house.gateway.run()["frames"]["near"]
    assert house.backfilled("cable") + house.backfilled("lte") == near
    assert house.backfilled("cable") >= 25, "it moved there within seconds"
    assert len(house.gateway.store.identities()) == near


def test_records_move_when_their_link_is_lost_and_nothing_is_lost_with_it(build: Build) -> None:
    house = build(policy="near_only", count=250)

    def lost() -> bool:
        if house.backfilled("cable") >= 30 and not cut:
            cut.append(house.backfilled("cable"))
            house.links["cable"].cut()
        return house.agent.wait(just_ask, poll_s=0.02)

    just_ask = Event()
    just_ask.set()
    cut: list[int] = []
    summary = house.gateway.run(until=lost)
    assert cut
    assert house.backfilled("lte") > 0
    assert len(house.gateway.store.identities()) == summary["frames"]["near"] >= 240
    assert summary["outbox"]["pending"] == 0


def test_over_a_link_whose_data_budget_is_used_up_near_answers_and_says_why(build: Build) -> None:
    house = build(budget=", data_budget: {per_hour: 20kB}")
    house.links["cable"].cut()
    house.agent.start()
    assert house.agent.wait(Event()), "the end of the clip"
    house.agent.drain(Event(), 300_000)
    house.agent.close()
    lines = house.gateway.lines()
    sent = sum(x["encoding"]["bytes"] for x in lines if x["encoding"])
    assert 0 < sent <= 20_000
    assert {x["reason"] for x in lines[-20:]} <= {
        "data budget used up, not connected",
        "connection lost, data budget used up",
        "data budget used up",
    }, {x["reason"] for x in lines[-20:]}
    assert all(x["on_time"] for x in lines)
