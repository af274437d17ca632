"""Who waits for whom on a busy core: threads that hand answers on wait for nobody, where that is permitted."""

import os
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import cv2
import numpy as np
import pytest

from edge.agent import Agent
from edge.config.pipeline import load_pipeline
from edge.precedence import DECIDES, PRIORITY, Precedence
from tests.support.eventually import eventually

PIPELINE = """\
version: 1
agent: gateway
state_dir: {root}/gateway
streams:
  clip: {{source: {{kind: file, path: {root}/clip.avi}}}}
near: {{detector: {{kind: synthetic, delay: 1ms}}}}
links: {{cable: {{url: "zmq://127.0.0.1:1"}}}}
{more}
"""
NOISE = bytes(range(256)) * 4096
HANDS_ON = ["dispatcher", "link-cable", "outbox-writer"]


@contextmanager
def thread(name: str) -> Iterator[threading.Thread]:
    over = threading.Event()
    made = threading.Thread(target=over.wait, name=name)
    made.start()
    try:
        yield made
    finally:
        over.set()
        made.join()


def policy(of: threading.Thread) -> int:
    assert of.native_id is not None
    return os.sched_getscheduler(of.native_id) & ~os.SCHED_RESET_ON_FORK


@contextmanager
def precedence(*names: str) -> Iterator[list[str]]:
    made = Precedence()
    try:
        yield made.start(hand_on=names)
    finally:
        made.close()


def permitted() -> bool:
    with thread("asks") as asks, precedence("asks") as first:
        return first == [asks.name]


def test_only_the_threads_that_were_named_go_first_and_at_the_lowest_priority() -> None:
    if not permitted():
        pytest.skip("needs CAP_SYS_NICE or an rtprio limit")
    with thread("first") as first, thread("other") as other, precedence("first", "nobody") as ahead:
        assert ahead == ["first"]
        assert policy(first) == os.SCHED_RR
        assert os.sched_getparam(first.native_id or 0).sched_priority == PRIORITY
        assert policy(other) == os.SCHED_OTHER
    assert policy(threading.current_thread()) == os.SCHED_OTHER


def priorities_of_who_decides_and_who_hands_on() -> list[int]:
    made = Precedence()
    with thread("decides") as decides, thread("hands-on") as hands_on:
        try:
            assert made.start(decide=["decides"], hand_on=["hands-on"]) == ["decides", "hands-on"]
            return [os.sched_getparam(t.native_id or 0).sched_priority for t in (decides, hands_on)]
        finally:
            made.close()


def test_who_decides_goes_before_those_that_hand_on() -> None:
    if not permitted():
        pytest.skip("needs CAP_SYS_NICE or an rtprio limit")
    assert priorities_of_who_decides_and_who_hands_on() == [DECIDES, PRIORITY]
    assert DECIDES > PRIORITY


def test_where_only_the_lowest_priority_is_permitted_both_have_that(monkeypatch: pytest.MonkeyPatch) -> None:
    if not permitted():
        pytest.skip("needs CAP_SYS_NICE or an rtprio limit")
    put = os.sched_setscheduler

    def limited(native_id: int, policy: int, parameter: os.sched_param) -> None:
        if parameter.sched_priority > PRIORITY:
            raise PermissionError("Operation not permitted")
        put(native_id, policy, parameter)

    monkeypatch.setattr(os, "sched_setscheduler", limited)
    assert priorities_of_who_decides_and_who_hands_on() == [PRIORITY, PRIORITY]


def test_where_it_is_not_permitted_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError("Operation not permitted")

    monkeypatch.setattr(os, "sched_setscheduler", refused)
    with thread("first") as first, precedence("first") as ahead:
        assert ahead == []
        assert policy(first) == os.SCHED_OTHER


def test_a_thread_that_works_without_a_pause_waits_its_turn_until_it_is_quiet_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    if not permitted():
        pytest.skip("needs CAP_SYS_NICE or an rtprio limit")
    quiet, over = threading.Event(), threading.Event()

    def spin() -> None:
        while not quiet.is_set():
            zlib.compress(NOISE)  # which keeps nobody from the interpreter
        over.wait()

    spins = threading.Thread(target=spin, name="spins")
    spins.start()
    try:
        with precedence("spins"):
            assert policy(spins) == os.SCHED_RR
            eventually(lambda: policy(spins) == os.SCHED_OTHER, 15.0)
            eventually(lambda: "thread spins works without a pause" in caplog.text)
            quiet.set()
            eventually(lambda: policy(spins) == os.SCHED_RR, 15.0)
    finally:
        quiet.set()
        over.set()
        spins.join()


@pytest.mark.parametrize(("more", "ahead"), [("", HANDS_ON), ("scheduler: {real_time: false}", [])])
def test_an_agent_puts_first_what_hands_on_and_nothing_that_computes_unless_told_not_to(
    tmp_path: Path, more: str, ahead: list[str]
) -> None:
    if not permitted():
        pytest.skip("needs CAP_SYS_NICE or an rtprio limit")
    writer = cv2.VideoWriter(f"{tmp_path}/clip.avi", cv2.VideoWriter.fourcc(*"MJPG"), 10, (64, 48))
    writer.write(np.zeros((48, 64, 3), np.uint8))
    writer.release()
    (tmp_path / "pipeline.yaml").write_text(PIPELINE.format(root=tmp_path, more=more))
    agent = Agent(load_pipeline(tmp_path / "pipeline.yaml"))
    agent.start()
    try:
        first = {t.name for t in threading.enumerate() if policy(t) == os.SCHED_RR}
        assert first - {"precedence"} == {*ahead}  # which looks after the others
        assert agent.summary()["real_time"] == ahead
    finally:
        agent.close()
