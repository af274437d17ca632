"""Field cases of several links, with real processes: two workers of one record store, one of them lost in every way."""

import json
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.eventually import eventually
from tests.support.rig import Process, Rig, free_port, rig

LINKS = ("cable", "spare")


class Pair:
    """A gateway and two workers that share a record store; `by_link` of a link is the worker behind it."""

    def __init__(self, made: Rig) -> None:
        self.rig = made
        self.ports = {"cable": made.port, "spare": free_port()}
        self.by_link: dict[str, Process] = {}
        for link in LINKS:
            self.start(link)

    def start(self, link: str) -> None:
        self.rig.port = self.ports[link]
        self.by_link[link] = self.rig.start_worker()

    def start_agent(self, *arguments: str) -> None:
        spare = f"links.spare={{url: 'zmq://127.0.0.1:{self.ports['spare']}'}}"
        self.rig.start_agent("--set", spare, *arguments)

    def wait_in_budget(self, link: str, *, within_s: float = 10.0) -> None:
        """Until frames may go over `link`, as the run directory tells; whether they do is the scheduler's choice."""

        def told() -> bool:
            text = (self.rig.run_dir / "link.jsonl").read_text()
            lines = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
            mine = [line["in_budget"] for line in lines if line["link"] == link]
            return bool(mine) and bool(mine[-1])

        eventually(told, within_s, f"link {link} in budget")

    @property
    def carrier(self) -> str:
        """The link the last far answer came over."""
        return str([a["link"] for a in self.rig.answers if a["answered_by"] == "far"][-1])

    def assert_far_went_on(self, after: int, *, without: str) -> None:
        """All but the frames that were on their way, and the next few, were answered far over the other link."""
        far = [a["link"] for a in self.rig.answers[after + 20 :] if a["answered_by"] == "far"]
        assert without not in far
        assert len(far) >= 30, self.tally(after)

    def tally(self, after: int = 0) -> Counter[tuple[str, str]]:
        return Counter((a["answered_by"], a["link"]) for a in self.rig.answers[after:])


@contextmanager
def pair(root: Path, **options: object) -> Iterator[Pair]:
    with rig(root, **options) as made:
        yield Pair(made)


@pytest.mark.alone
def test_a_lost_worker_costs_no_deadline_and_far_goes_on_over_the_other_link(tmp_path: Path):
    """F01, F04: the worker that answers is killed and comes back, then the one that answers is frozen."""
    with pair(tmp_path) as two:
        r = two.rig
        two.start_agent()
        r.wait_answers("far", 20)
        killed = two.carrier
        before = len(r.answers)
        two.by_link[killed].kill()
        r.wait_more(60)
        two.assert_far_went_on(before, without=killed)
        two.start(killed)
        two.wait_in_budget(killed)
        frozen = two.carrier
        again = len(r.answers)
        two.by_link[frozen].signal(signal.SIGSTOP)
        r.wait_more(60)
        two.assert_far_went_on(again, without=frozen)
        two.by_link[frozen].signal(signal.SIGCONT)
        two.wait_in_budget(frozen)
        summary = r.stop_agent(within_s=5.0)
        assert all(a["on_time"] for a in r.seen), [a for a in r.seen if not a["on_time"]]
        assert summary["frames"]["missed"] == 0
        assert sum(summary["frames"]["shed"].values()) <= 0.05 * summary["frames"]["captured"]
        assert set(summary["links"]) == set(LINKS)


def test_both_workers_lost_and_one_back_loses_no_record_and_makes_none_twice(tmp_path: Path):
    """F12, F25: what was answered near goes up over whichever link is there."""
    with pair(tmp_path, deadline="5s") as two:
        r = two.rig
        two.start_agent("--frames", "150")
        r.wait_answers("far", 20, within_s=30.0)
        before = len(r.answers)
        for link in LINKS:
            two.by_link[link].kill()
        r.wait_answers("near", 40, after=before, within_s=30.0)
        two.start("spare")
        summary = r.finish_agent()
        assert summary["outbox"]["pending"] == 0
        assert summary["frames"]["missed"] == 0
        r.stop_worker()
        records = r.records()
        assert sorted(records) == sorted(r.seen_identities())


def test_a_worker_with_another_store_is_said_and_left_and_the_other_link_serves(tmp_path: Path):
    with pair(tmp_path, deadline="5s") as two:
        r = two.rig
        two.by_link["spare"].kill()
        r.port = two.ports["spare"]
        r.start_worker(store=tmp_path / "elsewhere")
        two.start_agent()
        r.wait_answers("far", 40, within_s=30.0)
        summary = r.stop_agent(within_s=10.0)
        assert r.agent is not None
        log = r.agent.log.read_text()
        refused = {link for link in LINKS if f"link {link}: not using this worker" in log}
        assert len(refused) == 1
        assert "give all workers of this agent one store.url" in log
        served = {a["link"] for a in r.seen if a["answered_by"] == "far"}
        assert served == set(LINKS) - refused
        assert summary["frames"]["missed"] == 0


@pytest.mark.alone
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_without_near_a_lost_worker_costs_only_what_was_on_its_way(tmp_path: Path, number: signal.Signals):
    with pair(tmp_path, policy="far_only") as two:
        r = two.rig
        two.start_agent()
        r.wait_answers("far", 20)
        carrier = two.carrier
        before = len(r.answers)
        lost = two.by_link[carrier]
        if number is signal.SIGKILL:
            lost.kill()
        else:
            lost.signal(number)
        r.wait_more(80)
        after = r.answers[before + 20 :]
        assert carrier not in {a["link"] for a in after if a["answered_by"] == "far"}
        assert sum(not a["on_time"] for a in after) <= 2, two.tally(before)
        r.stop_agent()
