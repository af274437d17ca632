"""Engine processes that are killed, stopped, crash or never come back: one frame is lost to its near answer, never
more.

The service is in this process, so that times can be judged; test_engine_worker_faults.py has whole workers.
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cloud.engine.engines import Engines
from cloud.limits import ServiceLimits
from protos.wire.live import FrameBody, Reject, Result
from protos.wire.session import RejectReason
from tests.support.engine_detectors import (
    LOOP,
    SEGFAULT,
    SLOW,
    WELL,
    DoesCodec,
    engines,
    is_gone,
)
from tests.support.eventually import eventually
from tests.support.rigs import Rig
from tests.support.workers import GatedDetector, service

CREDIT = ServiceLimits(frames_in_flight=1000)


class EngineRig(Rig):
    """A service whose instances are in engines; the body of a frame says what its run does."""

    engines: Engines

    def does(self, seq: int, what: int, *, budget_us: int = 5_000_000) -> None:
        self.head(seq, budget_us=budget_us)
        self.session.receive(
            FrameBody(stream=0, seq=seq, data=bytes([what]) * 10), time.monotonic_ns() // 1000
        )

    def ended(self) -> dict[int, Result | Reject]:
        """seq → how it ended; no frame ends twice."""
        ends = [m for m in self.peer.sent if isinstance(m, Result | Reject)]
        assert len({end.seq for end in ends}) == len(ends)
        return {end.seq: end for end in ends}

    def ends(self, seq: int, within_s: float = 10.0) -> Result | Reject:
        eventually(lambda: seq in self.ended(), within_s, f"the end of frame {seq}")
        return self.ended()[seq]

    def runs(self) -> bool:
        """Whether every frame it was given has begun to run."""
        return self.service.backlog.waiting() == (0, 0)

    def ready(self) -> bool:
        return not self.service.not_ready() and not self.engines.trouble()


@contextmanager
def engine_rig(folder: Path, *, processes: int = 1, **options: Any) -> Iterator[EngineRig]:
    with (
        engines(processes=processes, **options) as made,
        service(
            folder,
            build=lambda: made.build("synthetic"),
            codecs={"raw": DoesCodec()},
            instances=processes,
            limits=CREDIT,
            warm_up=1,
        ) as (served, store),
    ):
        out = EngineRig(served, store, GatedDetector())
        out.engines = made
        out.welcome()
        eventually(out.ready, 60.0, "every engine ready")
        yield out
        made.stop()


def pid_of_running(r: EngineRig) -> int:
    """Of the engine that works: instance n of the only model is in engine n."""
    busy = [job for lane in r.service.backlog.lanes.values() for job in lane.taken]
    return r.engines.pids()[busy[0]]


def test_a_frame_in_an_engine_that_is_killed_is_rejected_at_once_and_the_engine_is_back(tmp_path: Path):
    """F06"""
    with engine_rig(tmp_path) as r:
        away, causes = [], []
        for seq in range(1, 6):
            eventually(r.ready, 60.0)
            r.does(seq, LOOP)
            eventually(r.runs, what="a run")
            os.kill(r.engines.pids()[0], signal.SIGKILL)
            end = r.ends(seq)
            away.append(not r.ready())
            assert isinstance(end, Reject)
            assert end.reason is RejectReason.FAILED
            causes.append(end.text)
        assert any("engine 0 was killed (SIGKILL)" in cause for cause in causes)
        assert sum(away) >= 3, "told long before the engine was back"
        eventually(r.ready, 60.0)
        r.does(9, WELL)
        assert isinstance(r.ends(9), Result)


def test_the_first_crash_costs_no_waiting(tmp_path: Path):
    with engine_rig(tmp_path) as r:
        os.kill(r.engines.pids()[0], signal.SIGKILL)
        eventually(lambda: not r.ready(), what="it is seen")
        said: set[str] = set()

        def back() -> bool:
            said.update(state.words for state in r.engines.states())
            return r.ready()

        eventually(back, 60.0)
        assert any("starting" in words for words in said)
        assert [words for words in said if "starts again in" in words] == []


def test_while_one_engine_is_started_again_the_other_answers_and_every_frame_ends(tmp_path: Path):
    with engine_rig(tmp_path, processes=2) as r:
        r.does(1, SLOW)
        eventually(r.runs, what="a run")
        os.kill(pid_of_running(r), signal.SIGKILL)
        for seq in range(2, 200):
            r.does(seq, WELL)
            r.ends(seq)
        ends = r.ended()
        assert isinstance(ends[1], Reject)
        assert [seq for seq in range(2, 200) if isinstance(ends[seq], Reject)] == []
        eventually(r.ready, 60.0)
        assert sum(state.restarts for state in r.engines.states()) == 1


def test_a_kill_under_load_loses_no_frame(tmp_path: Path):
    with engine_rig(tmp_path, processes=2) as r:
        frames = 300
        for seq in range(1, frames + 1):
            r.does(seq, WELL)
            if seq % 100 == 0:
                pid = next(state.pid for state in r.engines.states() if state.pid)
                os.kill(pid, signal.SIGKILL)
            eventually(lambda: len(r.ended()) >= seq - 20, 10.0, "all but the last frames")  # noqa: B023
        eventually(lambda: len(r.ended()) == frames, 20.0, "the end of every frame")
        answered = [m for m in r.ended().values() if isinstance(m, Result)]
        assert len(answered) > frames / 2
        assert r.outcome("answered") == len(answered)
        assert r.outcome("rejected") == frames - len(answered)
        eventually(lambda: len(r.store.identities()) == len(answered), 10.0, "one record for each answer")
        eventually(r.ready, 60.0)


def test_frames_that_wait_for_the_only_engine_end_at_once_if_it_comes_back_too_late_for_them(tmp_path: Path):
    with engine_rig(tmp_path) as r:
        r.does(1, LOOP)
        eventually(r.runs, what="a run")
        begun_s = time.monotonic()
        os.kill(r.engines.pids()[0], signal.SIGKILL)
        assert isinstance(r.ends(1), Reject)
        eventually(r.ready, 60.0)
        back_s = time.monotonic() - begun_s

        r.does(2, LOOP)
        eventually(r.runs, what="a run")
        r.does(3, WELL, budget_us=60_000_000)
        r.does(4, WELL, budget_us=int(back_s * 1e6 / 2))
        os.kill(r.engines.pids()[0], signal.SIGKILL)
        end = r.ends(4)
        assert isinstance(end, Reject)
        assert end.reason is RejectReason.NO_MODEL, "told before its time was over"
        assert isinstance(r.ends(3, 20.0), Result)


def test_a_stopped_engine_is_held_to_hang_killed_and_replaced(tmp_path: Path):
    with engine_rig(tmp_path, processes=2, hang_after_us=2_000_000) as r:
        r.does(1, SLOW)
        eventually(r.runs, what="a run")
        pid = pid_of_running(r)
        os.kill(pid, signal.SIGSTOP)
        for seq in range(2, 50):
            r.does(seq, WELL)
            assert isinstance(r.ends(seq), Result), "the other engine goes on"
        end = r.ends(1)
        assert isinstance(end, Reject)
        assert "gave no answer within 2s and was killed" in end.text
        eventually(lambda: is_gone(pid))
        eventually(r.ready, 60.0)


def test_a_picture_that_crashes_the_model_costs_itself_and_a_loop_of_them_is_slowed_down_and_said(
    tmp_path: Path,
):
    with engine_rig(tmp_path) as r:
        for seq in range(1, 4):
            eventually(lambda: not r.service.not_ready(), 60.0)
            r.does(seq, SEGFAULT)
            end = r.ends(seq)
            assert isinstance(end, Reject)
            assert "crashed (SIGSEGV)" in end.text
        (words,) = eventually(r.engines.trouble)
        assert "3 times in a row" in words
        assert r.service.not_ready() == ["model synthetic is not loaded"]
        eventually(r.ready, 60.0)
        r.does(4, WELL)
        assert isinstance(r.ends(4), Result)
        assert r.service.metrics.value("nearfar_worker_model_restarts_total", model="synthetic") == 3


def test_a_hung_engine_does_not_keep_a_service_from_stopping(tmp_path: Path):
    with engine_rig(tmp_path, hang_after_us=3_600_000_000) as r:
        r.does(1, LOOP)
        eventually(r.runs, what="a run")
        r.engines.stop()
        assert isinstance(r.ends(1), Reject)
        r.service.stop()
        assert r.service.left_behind == []
