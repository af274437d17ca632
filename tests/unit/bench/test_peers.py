"""Beside others: all in one run and by turns, each answer for its own frame, and nobody left out in silence."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.bench.__main__ import table
from tests.bench.peers.base import REPLY_BYTES, check, result
from tests.bench.peers.comparison import fill, missing
from tests.bench.peers.environments import REQUIREMENTS, ROOT, Environments
from tests.bench.peers.kinds import OTHERS, OURS, OURS_GRPC, OURS_ZMQ, PEERS, Peer
from tests.bench.peers.pair import Pair, PeerFailed
from tests.bench.peers.rounds import RESTARTS, Measured, Taken, measure
from tests.bench.report import Report

SIZE = 150_000


def a_peer(name: str, *, windowed: bool = True) -> Peer:
    return Peer(name=name, module=name, environment=None, windowed=windowed, does="moves bytes")


class StandIn:
    """Answers as told; `fails_at`: which of its questions it does not survive."""

    def __init__(self, name: str, asked: list[tuple[str, int]], *, fails_at: int = 0) -> None:
        self.name = name
        self.closed = False
        self._asked = asked
        self._left = fails_at

    def ask(self, *, size_bytes: int, frames: int, window: int) -> dict[str, float]:
        self._left -= 1
        if self._left == 0:
            raise PeerFailed(f"{self.name} has ended: no more")
        self._asked.append((self.name, window))
        return {"p50_us": 100.0, "p99_us": 200.0, "per_s": 1000.0, "cpu_s": 0.001 * frames}

    def close(self) -> None:
        self.closed = True


def test_every_round_asks_everybody_and_begins_with_another() -> None:
    asked: list[tuple[str, int]] = []
    started: list[StandIn] = []

    def start(peer: Peer) -> StandIn:
        started.append(StandIn(peer.name, asked))
        return started[-1]

    taken = measure(
        [a_peer("a"), a_peer("b", windowed=False)], start, sizes_bytes=[SIZE], rounds=2, seconds=0.1
    )
    warm_up = [("a", 1), ("a", 8), ("b", 1)]
    assert asked == [*warm_up, ("a", 1), ("a", 8), ("b", 1), ("b", 1), ("a", 1), ("a", 8)]
    cell = {"p50_us": 100.0, "p99_us": 200.0, "cpu_us": pytest.approx(1000.0)}
    assert taken.by_size[SIZE]["b"] == [cell, cell]
    assert taken.by_size[SIZE]["a"][0] == cell | {
        "window_per_s": 1000.0,
        "window_cpu_us": pytest.approx(1000.0),
    }
    assert all(each.closed for each in started)
    assert len(started) == 2


def test_a_peer_that_fails_once_has_one_empty_round_and_is_told_of() -> None:
    tries = iter((3, 0))

    def start(peer: Peer) -> StandIn:
        return StandIn(peer.name, [], fails_at=next(tries))

    taken = measure([a_peer("a")], start, sizes_bytes=[SIZE], rounds=3, seconds=0.1)
    assert [each is None for each in taken.by_size[SIZE]["a"]] == [True, False, False]
    assert taken.restarts == {"a": {"a has ended: no more": 1}}
    assert taken.failed == {}


def test_a_peer_that_keeps_failing_is_left_out_with_its_last_words_and_the_others_go_on() -> None:
    starts: list[str] = []

    def start(peer: Peer) -> StandIn:
        starts.append(peer.name)
        return StandIn(peer.name, [], fails_at=int(peer.name == "bad"))

    taken = measure([a_peer("bad"), a_peer("good")], start, sizes_bytes=[SIZE], rounds=15, seconds=0.1)
    assert taken.failed == {"bad": "bad has ended: no more"}
    assert starts.count("bad") == RESTARTS + 1
    assert None not in taken.by_size[SIZE]["good"]


def a_run(*, ours_p50_us: float, ours_per_s: float) -> Taken:
    """Theirs take 100 µs and 1000 a second, but in the middle round, when the machine was busy, ten times that."""

    def rounds(p50_us: float, per_s: float) -> list[Measured | None]:
        return [
            {
                "p50_us": p50_us * busy,
                "p99_us": 2 * p50_us,
                "cpu_us": 50.0,
                "window_per_s": per_s / busy,
                "window_cpu_us": 40.0,
            }
            for busy in (1, 10, 1)
        ]

    cells = {peer.name: rounds(100.0, 1000.0) for peer in OTHERS}
    cells |= {peer.name: rounds(ours_p50_us, ours_per_s) for peer in OURS}
    return Taken(by_size={SIZE: cells})


def test_ahead_is_a_quicker_round_trip_and_more_frames_a_second_and_equal_is_not_ahead() -> None:
    ahead, behind = Report("peers"), Report("peers")
    fill(ahead, a_run(ours_p50_us=99.0, ours_per_s=1001.0), {})
    fill(behind, a_run(ours_p50_us=100.0, ours_per_s=1000.0), {})
    assert ahead.ok
    assert len(ahead.bars) == 2 + 3 * 2  # one at a time over ZeroMQ; the others over ZeroMQ and over gRPC
    assert {bar["ok"] for bar in behind.bars.values()} == {False}
    assert ahead.bars["p50 of 150 kB, one on its way: nearfar zmq / imagezmq"] == {
        "want": "< 1.0",
        "got": 0.99,
        "ok": True,
    }
    assert not [what for what in ahead.bars if "any reply" in what]


def test_a_round_in_which_one_of_the_two_failed_is_no_pair() -> None:
    taken = a_run(ours_p50_us=50.0, ours_per_s=2000.0)
    taken.by_size[SIZE]["imagezmq"][0] = None
    taken.by_size[SIZE][OURS_ZMQ][2] = None
    report = Report("peers")
    fill(report, taken, {})
    assert report.figures["150 kB"]["imagezmq"]["nearfar zmq / this, p50_us"] == {
        "median": 0.5,
        "p10_p90": [0.5, 0.5],
    }


def test_who_is_not_installed_or_did_not_run_keeps_its_rows_and_says_so() -> None:
    taken = a_run(ours_p50_us=50.0, ours_per_s=2000.0)
    del taken.by_size[SIZE]["imagezmq"]
    taken.failed["Gabriel"] = "server Gabriel was silent for 90 s"
    report = Report("peers")
    fill(report, taken, {"imagezmq": Environments().how("imagezmq")})
    assert not report.ok
    page = table(json.loads(json.dumps(report.as_dict())))
    lines = page.splitlines()
    (row,) = [line for line in lines if line.startswith("| imagezmq |")]
    assert "not installed: make peers (pip install 'imagezmq>=1.2'" in row
    bars = [line for line in lines if line.endswith("| not measured |")]
    assert len(bars) == 1 + 2
    assert any("imagezmq" in line and "not installed" in line for line in bars)
    assert all("did not run: server Gabriel was silent" in line for line in bars if "Gabriel" in line)
    assert "| NetGear | 0.1 | 0.2 | one at a time | 0.05 |" in page


def test_what_is_not_installed_is_known_before_anything_runs(tmp_path: Path) -> None:
    absent = missing(Environments(tmp_path), install=False)
    assert set(absent) == {peer.name for peer in OTHERS}
    assert absent["NetGear, any reply"] == absent["NetGear"]
    assert "'vidgear>=0.3.6'" in absent["NetGear"]


def test_one_made_from_other_requirements_is_not_installed(tmp_path: Path) -> None:
    environments = Environments(tmp_path)
    (tmp_path / "http").mkdir()
    (tmp_path / "http" / "made-from.txt").write_text("fastapi>=0.1\n")
    assert environments.python("http") is None
    (tmp_path / "http" / "made-from.txt").write_text((REQUIREMENTS / "http.txt").read_text())
    assert environments.python("http") == tmp_path / "http" / "bin" / "python"
    assert environments.python(None) == Path(sys.executable)


def test_every_peer_has_requirements_with_lower_bounds() -> None:
    files = {path.stem for path in REQUIREMENTS.glob("*.txt")}
    assert {peer.environment for peer in OTHERS} == files
    for path in REQUIREMENTS.glob("*.txt"):
        assert [line for line in path.read_text().split() if ">=" not in line] == []


def test_a_reply_is_that_of_this_very_frame() -> None:
    body = bytes(range(9))
    reply = result(7, body)
    assert len(reply) == REPLY_BYTES
    check(reply, 7, body)
    for wrong in (result(6, body), result(7, b"x"), reply[:-1]):
        with pytest.raises(RuntimeError, match="frame 7 was answered by something else"):
            check(wrong, 7, body)


def test_a_peer_is_given_nothing_of_ours_to_import() -> None:
    """In its environment there is only what it needs itself."""
    code = "import sys, tests.bench.peers.child; print(sorted({m.partition('.')[0] for m in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = set(json.loads(done.stdout.replace("'", '"')))
    assert not loaded & {"pipelines", "protos", "edge", "cloud", "numpy", "psutil", "zmq", "grpc"}


@pytest.mark.parametrize("name", [OURS_ZMQ, OURS_GRPC])
def test_ours_is_measured_through_the_whole_worker_in_processes_of_its_own(name: str, tmp_path: Path) -> None:
    with Pair(PEERS[name], Path(sys.executable), tmp_path) as pair:
        closed = pair.ask(size_bytes=30_000, frames=20, window=1)
        flow = pair.ask(size_bytes=30_000, frames=20, window=8)
    assert 0 < closed["p50_us"] <= closed["p99_us"]
    assert flow["per_s"] > 0


@pytest.mark.skipif(find_spec("imagezmq") is not None, reason="it is installed here")
def test_a_peer_that_cannot_start_says_why_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(PeerFailed, match=r"serve imagezmq has ended: .*No module named 'imagezmq'"):
        Pair(PEERS["imagezmq"], Path(sys.executable), tmp_path)
