"""Real agents whose receivers are away, slow or killed: no answer is late for it, and none is lost on the way."""

import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.support.broker import Broker, Subscriber
from tests.support.eventually import eventually
from tests.support.receiver import Receiver
from tests.support.rig import Process, Rig, free_port, rig

IN_THE_INSTANT = 3  # answers of 40 ms each, for a machine that runs other tests beside this one
RECIPE = Path(__file__).parents[2] / "pipelines" / "recipes" / "deliver.yaml"


def near_only(root: Path, *, deadline: str = "5s") -> Any:
    return rig(root, policy="near_only", near_delay="2ms", deadline=deadline)


def sinks(house: Rig, *blocks: str) -> None:
    house.start_agent("--set", f"sinks=[{{kind: stdout}}, {', '.join(blocks)}]")


def ids(answers: list[dict[str, Any]]) -> list[str]:
    return [f"{a['agent']}/{a['run']}/{a['stream']}/{a['seq']}" for a in answers]


@pytest.mark.service("mosquitto")
def test_the_recipe_brings_every_answer_to_broker_web_server_and_file(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker, Subscriber(broker, "plant/#") as reader, Receiver() as receiver:
        sets = {
            "state_dir": tmp_path / "state",
            "deadline": "5s",
            "sinks.0.url": broker.url,
            "sinks.1.url": receiver.url,
            "sinks.2.path": tmp_path / "answers.jsonl",
            "links.uplink.url": f"zmq://127.0.0.1:{free_port()}",
            "drain": "1s",
        }
        arguments = ["edge", str(RECIPE), "--frames", "40", "--run-dir", str(tmp_path / "run")]
        for key, value in sets.items():
            arguments += ["--set", f"{key}={value}"]
        agent = Process(arguments, tmp_path / "agent.log")
        code = agent.popen.wait(60)
        agent.end()
        assert code == 0, agent.log.read_text()[-3000:]
        lines = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text().splitlines()]
        wanted = sorted(ids(lines))
        assert len(wanted) >= 30
        assert sorted(a["id"] for a in receiver.taken) == wanted
        eventually(lambda: sorted(a["id"] for a in reader.answers) == wanted, what="the same at the broker")
        assert reader.seqs == sorted(reader.seqs)
        assert reader.states == ["online", "offline"]
        told = json.loads((tmp_path / "run" / "summary.json").read_text())["sinks"]
        assert told["mqtt"]["delivered"] == told["webhook"]["delivered"] == len(wanted)
        assert told["mqtt"]["waiting"] == told["webhook"]["waiting"] == 0


def test_after_kill_9_what_a_durable_sink_had_is_delivered_in_order_by_the_next_run(tmp_path: Path) -> None:
    with near_only(tmp_path) as house, Receiver() as receiver:
        block = f"{{kind: webhook, url: '{receiver.url}', durable: true}}"
        receiver.judge = lambda _: 503
        for _ in range(3):
            sinks(house, block)
            house.wait_more(15)
            house.kill_agent()
        given = ids(house.seen)
        receiver.judge = lambda _: 200
        sinks(house, block)
        eventually(lambda: len(receiver.taken) > len(given), 20.0, "the backlog and what is new")
        house.stop_agent(within_s=10.0)
        taken = [a["id"] for a in receiver.taken]
        # An answer given in the instant of the kill may have reached standard output and not yet the queue.
        missing = [one for one in given if one not in taken]
        assert set(missing) <= last_of_each_run(given, IN_THE_INSTANT)
        order = [one for one in dict.fromkeys(taken) if one in given]
        assert order == [one for one in given if one in order]
        assert not list((tmp_path / "gateway" / "sinks").glob("*damaged*"))


def last_of_each_run(given: list[str], count: int) -> set[str]:
    by_run: dict[str, list[str]] = {}
    for one in given:
        by_run.setdefault(one.split("/")[1], []).append(one)
    return {one for of_run in by_run.values() for one in of_run[-count:]}


@pytest.mark.alone
def test_receivers_that_hang_or_are_not_there_delay_no_answer_and_hold_up_no_end(tmp_path: Path) -> None:
    with near_only(tmp_path, deadline="400ms") as house, Receiver() as receiver:
        receiver.hangs.set()
        nowhere = f"http://127.0.0.1:{free_port()}/"
        sinks(
            house,
            f"{{kind: webhook, name: hangs, url: '{receiver.url}', timeout: 30s, durable: true}}",
            f"{{kind: webhook, name: nowhere, url: '{nowhere}', durable: true, order: seq}}",
        )
        house.wait_more(40)
        summary = house.stop_agent()
        assert [a["seq"] for a in house.seen if not a["on_time"]] == []
        for name in ("hangs", "nowhere"):
            counts = summary["sinks"][name]
            assert counts["written"] == counts["waiting"] == len(house.seen)
            assert counts["dropped"] == counts["failed"] == 0


def test_answers_that_only_memory_held_at_the_end_are_a_broken_promise_with_the_reason(
    tmp_path: Path,
) -> None:
    with near_only(tmp_path) as house:
        nowhere = f"http://127.0.0.1:{free_port()}/"
        sinks(house, f"{{kind: webhook, url: '{nowhere}'}}")
        house.wait_more(10)
        agent = house.agent
        assert agent is not None
        assert agent.stop() == 1
        told = agent.log.read_text()
        assert "answers did not reach the sink webhook" in told
        assert "Connection refused" in told


def test_what_waits_can_be_seen_on_healthz_and_in_the_metrics(tmp_path: Path) -> None:
    with near_only(tmp_path) as house:
        nowhere = f"http://127.0.0.1:{free_port()}/"
        block = f"{{kind: webhook, name: plant, url: '{nowhere}', durable: true}}"
        agent = house.start_agent(
            "--set", f"sinks=[{{kind: stdout}}, {block}]", "--set", 'http={address: "127.0.0.1:0"}'
        )
        house.wait_more(5)

        def page(path: str) -> str:
            with urllib.request.urlopen(agent.ready["http"] + path, timeout=5) as answer:  # noqa: S310 - its own page
                return str(answer.read(), "utf-8")

        alive, *notes = page("/healthz").splitlines()
        assert alive == "alive"
        assert len(notes) == 1
        assert notes[0].startswith("sink plant: ")
        assert "Connection refused" in notes[0]
        assert page("/readyz").startswith("ready, degraded: sink plant: ")
        metrics = page("/metrics")
        assert 'nearfar_agent_sink_failing{position="1",sink="plant"} 1.0' in metrics
        assert 'nearfar_agent_sink_queue_rows{position="1",sink="plant"}' in metrics
        house.stop_agent(within_s=10.0)


def test_with_order_seq_answers_come_in_the_order_of_frames_past_those_that_get_none(tmp_path: Path) -> None:
    gate = "streams.cam.gate={kind: motion, at_least_every: 200ms}"
    with near_only(tmp_path) as house:
        path = tmp_path / "ordered.jsonl"
        house.start_agent(
            "--set", f"sinks=[{{kind: stdout}}, {{kind: jsonl, path: {path}, order: seq}}]", "--set", gate
        )
        house.wait_more(20)
        summary = house.stop_agent(within_s=10.0)
        written = [json.loads(line)["seq"] for line in path.read_text().splitlines()]
        assert written == sorted(a["seq"] for a in house.seen)
        assert summary["sinks"]["jsonl"]["out_of_order"] == 0
