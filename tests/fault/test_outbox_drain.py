"""`nearfar outbox drain`: everything goes up without the agent, whatever happens to the worker meanwhile."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cloud.store.records import open_store
from edge.identity import StateDir
from edge.outbox.file.sqlite import SqliteOutbox
from edge.outbox.memory import Held
from edge.outbox.store import Changes, Watermark
from pipelines.result import Gap, GapReason
from tests.support.eventually import eventually
from tests.support.outboxes import OLD_RUN, payload, record
from tests.support.workers import WorkerProcess

COUNT = 3000


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Of a gateway that was killed: COUNT answers, a gap, and frames nobody can tell about."""
    held = StateDir(tmp_path / "state")
    held.identity("gw-7")
    held.close()
    store = SqliteOutbox(held.path / "outbox.db")
    store.open(0)
    gap = Gap(run=OLD_RUN, stream="door", first=COUNT + 1, last=COUNT + 5, reason=GapReason.SHED)
    mark = Watermark(run=OLD_RUN, stream="door", reserved=COUNT + 100, settled=COUNT + 5)
    entries = [Held(record(n, run=OLD_RUN, boxes=20), 0).entry(0) for n in range(1, COUNT + 1)]
    store.commit(Changes(entries=entries, gaps=[gap], marks=[mark]), 0)
    store.close(0)
    return held.path


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[WorkerProcess]:
    made = WorkerProcess(tmp_path / "worker")
    yield made
    made.kill()


def draining(state: Path, url: str, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "nearfar", "outbox", "drain", str(state), "--link", url, *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(process: subprocess.Popen[str], within_s: float = 30.0) -> tuple[int, str]:
    with process:  # reaped and its pipes closed, whatever happens
        try:
            out, err = process.communicate(timeout=within_s)
        finally:
            process.kill()
    return process.returncode, out + err


def figures(state: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "nearfar", "outbox", "stat", str(state), "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(json.loads(done.stdout))


def in_the_cloud(folder: Path) -> tuple[list[int], list[tuple[str, str]]]:
    with open_store(f"sqlite:///{folder}/records.db", read_only=True) as store:
        found = list(store.identities())
        assert {(i.agent, i.run, i.stream) for i in found} <= {("gw-7", OLD_RUN, "door")}
        return sorted(i.seq for i in found), [(a, g.reason.value) for a, g in store.gaps()]


def test_everything_goes_up_once_under_its_own_name_and_run(
    state: Path, worker: WorkerProcess, tmp_path: Path
) -> None:
    code, words = ended(draining(state, worker.url))
    assert code == 0, words
    assert f"{COUNT} records up, 0 to go, 0 gaps to go" in words
    assert worker.terminate() == 0
    seqs, gaps = in_the_cloud(tmp_path / "worker")
    assert seqs == list(range(1, COUNT + 1))
    assert sorted(gaps) == [("gw-7", "interrupted"), ("gw-7", "shed")]
    assert (figures(state)["pending"], figures(state)["acked"], figures(state)["adds_up"]) == (0, COUNT, True)


def test_a_drain_and_its_worker_killed_in_the_middle_is_gone_on_with_and_doubles_nothing(
    state: Path, worker: WorkerProcess, tmp_path: Path
) -> None:
    first = draining(state, worker.url)
    eventually(
        lambda: figures(state)["acked"] > 0 or first.poll() is not None, 20.0, "the first acknowledgement"
    )
    first.send_signal(signal.SIGKILL)
    ended(first)
    worker.kill()
    again = WorkerProcess(tmp_path / "worker")
    try:
        code, words = ended(draining(state, again.url))
        assert code == 0, words
    finally:
        again.kill()
    seqs, _ = in_the_cloud(tmp_path / "worker")
    assert seqs == list(range(1, COUNT + 1))


def test_without_a_worker_it_ends_in_words_and_keeps_everything(state: Path) -> None:
    begun = time.monotonic()
    code, words = ended(draining(state, "zmq://127.0.0.1:9", "--patience", "300ms"))
    assert code == 1
    assert "zmq://127.0.0.1:9: " in words
    assert "run it again to go on" in words
    assert time.monotonic() - begun < 10
    assert figures(state)["pending"] == COUNT


def test_a_signal_ends_it_and_what_is_left_is_said(state: Path) -> None:
    process = draining(state, "zmq://127.0.0.1:9", "--patience", "60s")
    assert process.stderr is not None
    assert "0 records up" in process.stderr.readline()
    process.terminate()
    code, words = ended(process)
    assert code == 1, words
    assert f"0 records up, {COUNT} to go" in words


def with_pictures(state: Path, count: int) -> dict[str, bytes]:
    """Kept beside what is there; their contents by hash."""
    entries = [payload(n, size=40_000 + n, run=OLD_RUN) for n in range(1, count + 1)]
    store = SqliteOutbox(state / "outbox.db")
    store.commit(Changes(payloads=entries), 0)
    store.close(0)
    return {e.shown.sha256.hex(): e.data for e in entries}


def test_pictures_go_up_too_also_when_no_record_is_left(state: Path, tmp_path: Path) -> None:
    contents = with_pictures(state, 20)
    worker = WorkerProcess(tmp_path / "worker", sets=(f"store.payloads.path={tmp_path}/pictures",))
    try:
        code, words = ended(draining(state, worker.url))
        assert code == 0, words
        assert "0 gaps to go, 20 pictures up, 0 to go" in words
        more = with_pictures(state, 21)
        code, words = ended(draining(state, worker.url))
        assert code == 0, words
        assert "21 pictures up, 0 to go" in words
        assert worker.terminate() == 0
    finally:
        worker.kill()
    there = {p.name: p.read_bytes() for p in tmp_path.rglob("*") if p.name in contents | more}
    assert there == contents | more
    told = figures(state)["payloads"]
    assert (told["acked"], told["pending"], told["adds_up"]) == (41, 0, True)


def test_a_worker_that_keeps_no_pictures_takes_the_records_and_that_is_said(
    state: Path, worker: WorkerProcess
) -> None:
    with_pictures(state, 3)
    code, words = ended(draining(state, worker.url))
    assert code == 1, words
    assert f"{COUNT} records up, 0 to go" in words
    assert "3 pictures stay: this worker takes none" in words
    assert figures(state)["payloads"]["pending"] == 3


def test_a_link_that_is_none_is_answered_in_words(state: Path) -> None:
    code, words = ended(draining(state, "http://127.0.0.1:9"))
    assert code == 2
    assert "must be zmq://HOST:PORT or grpc://HOST:PORT" in words


def test_records_without_a_name_beside_them_need_one(state: Path, worker: WorkerProcess) -> None:
    (state / "agent").unlink()
    code, words = ended(draining(state, worker.url))
    assert code == 2
    assert "--agent NAME" in words
    code, words = ended(draining(state, worker.url, "--agent", "gw-7"))
    assert code == 0, words
