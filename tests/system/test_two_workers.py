"""Two equal workers of one record store behind one agent's two links: who runs what, counted by the workers
themselves."""

import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from cloud.store.records import open_store
from tests.support.exposition import read_samples
from tests.support.rig import Process, Rig, free_port, rig

pytestmark = pytest.mark.alone

FRAMES = 120
Workers = dict[str, Process]


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Rig]:
    with rig(tmp_path, fps=30, far_delay="40ms", worker_extra="    warm_up: 1\n") as house:
        yield house


def run(made: Rig, *, scheduler: str = "") -> tuple[Workers, list[tuple[str, str]]]:
    """Both workers and one agent, to the end of its frames; the workers, and (answered by, link) of each answer."""
    workers: Workers = {}
    ports = {"cable": made.port, "spare": free_port()}
    for link, port in ports.items():
        made.port = port
        workers[link] = made.start_worker()
    sets = ["--set", f"links.spare={{url: 'zmq://127.0.0.1:{ports['spare']}'}}"]
    if scheduler:
        sets += ["--set", scheduler]
    made.start_agent(*sets, "--frames", str(FRAMES))
    made.finish_agent()
    return workers, [(a["answered_by"], a["link"]) for a in made.seen]


def ran(worker: Process) -> int:
    """Frames it ran."""
    with urllib.request.urlopen(worker.ready["http"] + "/metrics", timeout=5) as page:  # noqa: S310 - our own worker's
        return int(read_samples(page.read().decode())['nearfar_worker_frames_total{outcome="answered"}'])


def rows_with_a_far_result(made: Rig) -> int:
    with open_store(f"sqlite:///{made.root}/worker/records.db", read_only=True) as store:
        return sum(row.far_detections is not None for row in store.rows())


def test_two_workers_of_one_store_share_an_agent_s_frames_and_run_each_once(made: Rig) -> None:
    workers, answers = run(made)
    counts = {link: ran(worker) for link, worker in workers.items()}
    assert sum(by == "far" for by, _ in answers) >= 0.7 * FRAMES
    assert min(counts.values()) > 0, "one of them alone cannot run all in time"
    assert sum(counts.values()) == rows_with_a_far_result(made), "a frame run twice has one row"
    assert len(made.records()) == len(set(made.records())) == len(answers)


def test_only_frames_that_are_to_be_duplicated_are_run_by_both(made: Rig) -> None:
    workers, answers = run(made, scheduler="scheduler.duplicate={priorities: [normal], share: 100%}")
    counts = {link: ran(worker) for link, worker in workers.items()}
    rows = rows_with_a_far_result(made)
    assert min(counts.values()) > 0
    assert rows < sum(counts.values()) <= 2 * rows
    assert len(made.records()) == len(set(made.records())) == len(answers)
