"""Agents that do not behave, over every listener: nothing hangs, breaks, leaks or stays uncounted, and others are served."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from cloud.listeners.base import Listener
from cloud.listeners.kinds import LISTENERS
from cloud.service import Service
from protos.wire.live import Cancel, FrameBody, Reject, Result
from protos.wire.session import Error, Hello, Ping, Pong, RejectReason, Welcome
from tests.support.agents import HELLO, Agent, agent, frame, greet
from tests.support.eventually import eventually
from tests.support.workers import GatedDetector, clock_us, service

KINDS = [kind.name for kind in LISTENERS]
DATA = b"0123456789"
YEAR_US = 365 * 86_400_000_000
OTHER = replace(HELLO, run=b"another run of 1")


class House:
    """A worker behind a listener, its frames counted by how they ended."""

    def __init__(self, made: Service, listener: Listener, detector: GatedDetector) -> None:
        self.service, self.listener, self.detector = made, listener, detector

    def ends(self, outcome: str) -> float:
        return self.service.metrics.value("nearfar_worker_frames_total", outcome=outcome)

    def counted(self, **wanted: int) -> None:
        """Each outcome as often as this, once what was said is counted too."""
        eventually(
            lambda: all(self.ends(outcome) == count for outcome, count in wanted.items()), what=f"{wanted}"
        )

    def errors(self, reason: RejectReason) -> float:
        return self.service.metrics.value("nearfar_worker_errors_total", reason=reason.value)


@pytest.fixture(params=KINDS)
def house(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[House]:
    """At the end nothing is left in work, no listener failed, and a well-behaved agent is served."""
    detector = GatedDetector()
    with service(tmp_path, build=lambda: detector) as (made, _):
        listener: Listener = LISTENERS[request.param].resolve()(
            made, address="127.0.0.1:0", clock_us=clock_us, silent_us=YEAR_US
        )
        listener.start()
        try:
            yield House(made, listener, detector)
            detector.gate.set()
            eventually(lambda: made.backlog.waiting() == (0, 0), what="an empty queue")
            with agent(listener.address) as sound:
                greet(sound, replace(HELLO, agent="sound"))
                sound.send(*frame(1, DATA, codec="raw"))
                assert sound.until(Result).seq == 1
            assert listener.faults == 0
            assert listener.trouble == []
            assert made.not_ready() == []
            eventually(lambda: made.sessions == 0, what="the end of the sessions")
        finally:
            detector.gate.set()
            listener.stop()


@contextmanager
def greeted(house: House, hello: Hello = HELLO) -> Iterator[Agent]:
    with agent(house.listener.address) as made:
        greet(made, hello)
        yield made


def test_a_hello_said_twice_is_welcomed_twice_and_is_one_connection(house: House) -> None:
    with greeted(house) as gateway:
        gateway.send(*frame(1, DATA, codec="raw"))
        gateway.send(HELLO)
        gateway.until(Welcome)
        assert house.service.sessions == 1
        gateway.send(*frame(2, DATA, codec="raw"))
        while gateway.until(Result).seq != 2:
            pass
        house.counted(answered=2)


def test_a_hello_of_another_run_on_one_connection_is_refused_and_the_first_goes_on(house: House) -> None:
    with greeted(house) as gateway:
        gateway.send(OTHER)
        assert gateway.until(Error).reason is RejectReason.NOT_ALLOWED
        assert house.errors(RejectReason.NOT_ALLOWED) == 1
        gateway.send(*frame(1, DATA, codec="raw"))
        assert gateway.until(Result).seq == 1


def test_a_second_agent_of_a_name_is_refused_while_the_first_answers(house: House) -> None:
    with greeted(house) as first, agent(house.listener.address) as second:
        second.send(OTHER)
        asked = first.until(Ping)
        first.send(Pong(nonce=asked.nonce, arrived_mono_us=0, resident_us=0))
        error = second.until(Error)
        assert (error.reason, error.retry) == (RejectReason.NOT_ALLOWED, False)
        assert "another name" in error.text
        first.send(*frame(1, DATA, codec="raw"))
        assert first.until(Result).seq == 1


def test_a_second_agent_of_a_name_takes_it_from_one_that_does_not_answer_and_its_frames_still_end(
    house: House,
) -> None:
    with greeted(house) as first, agent(house.listener.address) as second:
        house.detector.gate.clear()
        first.send(*frame(1, DATA, codec="raw"))
        eventually(house.detector.running.is_set, what="a run")
        second.send(OTHER)
        second.until(Welcome)
        house.detector.gate.set()
        second.send(*frame(1, DATA, codec="raw"))
        assert second.until(Result).seq == 1
        first.send(*frame(2, DATA, codec="raw"))
        assert first.until(Reject).reason is RejectReason.HELLO_REQUIRED
        eventually(lambda: house.ends("answered") == 2, what="both runs counted")


def test_a_frame_before_the_hello_is_rejected_counted_and_costs_nothing_after_it(house: House) -> None:
    with agent(house.listener.address) as gateway:
        gateway.send(*frame(1, DATA, codec="raw"))
        assert gateway.until(Reject).reason is RejectReason.HELLO_REQUIRED
        house.counted(rejected=1)
        greet(gateway)
        gateway.send(*frame(1, DATA, codec="raw"))
        assert gateway.until(Result).seq == 1


def test_a_head_whose_body_never_comes_expires_and_gives_its_place_back(house: House) -> None:
    with greeted(house) as gateway:
        for seq in range(1, 9):  # the whole window
            gateway.send(replace(frame(seq, DATA, codec="raw")[0], worker_budget_us=50_000))
        for _ in range(8):
            assert gateway.until(Reject).reason is RejectReason.EXPIRED
        gateway.send(FrameBody(stream=0, seq=1, data=DATA))  # late, and dropped in silence
        gateway.send(*frame(9, DATA, codec="raw"))
        assert gateway.until(Result).seq == 9
        house.counted(rejected=8)


def test_heads_without_bodies_end_with_their_connection(house: House) -> None:
    with greeted(house) as gateway:
        for seq in range(1, 5):
            gateway.send(frame(seq, DATA, codec="raw")[0])
        gateway.send(Ping(nonce=1, sent_mono_us=0))
        gateway.until(Pong)
    house.counted(lost=4)


@pytest.mark.parametrize("data", [DATA + b"more", DATA[:5], b""])
def test_a_body_that_is_not_as_large_as_said_is_rejected_for_its_frame(house: House, data: bytes) -> None:
    with greeted(house) as gateway:
        head, _ = frame(1, DATA, codec="raw")
        gateway.send(head, FrameBody(stream=0, seq=1, data=data))
        reject = gateway.until(Reject)
        assert (reject.seq, reject.reason) == (1, RejectReason.BAD_PAYLOAD)
        gateway.send(*frame(2, DATA, codec="raw"))
        assert gateway.until(Result).seq == 2
        house.counted(rejected=1, answered=1)


def test_a_body_no_head_announced_and_a_cancel_of_nothing_are_survived(house: House) -> None:
    with greeted(house) as gateway:
        gateway.send(FrameBody(stream=0, seq=7, data=DATA), Cancel(stream=3, seq=99))
        assert gateway.until(Error).reason is RejectReason.BAD_PAYLOAD
        assert house.errors(RejectReason.BAD_PAYLOAD) == 1


@pytest.mark.parametrize("budget_us", [0, 1])
def test_a_deadline_that_is_over_is_rejected_at_once(house: House, budget_us: int) -> None:
    with greeted(house) as gateway:
        head, body = frame(1, DATA, codec="raw")
        gateway.send(replace(head, worker_budget_us=budget_us), body)
        assert gateway.until(Reject).reason in (RejectReason.TOO_LATE, RejectReason.EXPIRED)
        house.counted(rejected=1)


@pytest.mark.parametrize("budget_us", [YEAR_US, (1 << 62)])
def test_a_deadline_a_year_ahead_is_answered_and_holds_nobody_up(house: House, budget_us: int) -> None:
    with greeted(house) as gateway, greeted(house, replace(HELLO, agent="other")) as other:
        house.detector.gate.clear()
        head, body = frame(1, DATA, codec="raw")
        for seq in range(1, 9):
            gateway.send(replace(head, seq=seq, worker_budget_us=budget_us), replace(body, seq=seq))
        other.send(*frame(1, DATA, codec="raw"))
        eventually(lambda: house.service.backlog.waiting()[0] == 8, what="all in the queue")
        house.detector.gate.set()
        assert other.until(Result).seq == 1
        assert {gateway.until(Result).seq for _ in range(8)} == set(range(1, 9))


@pytest.mark.parametrize("sent_us", [0, 1, YEAR_US * 60, (1 << 63) - 1])
def test_a_clock_that_is_wrong_changes_nothing(house: House, sent_us: int) -> None:
    """Only durations of the worker's own clock count; a gateway may begin in 1970."""
    with greeted(house) as gateway:
        head, body = frame(1, DATA, codec="raw")
        gateway.send(replace(head, sent_mono_us=sent_us), body)
        result = gateway.until(Result)
        assert 0 <= result.timing.resident_us < 10_000_000
        gateway.send(Ping(nonce=1, sent_mono_us=sent_us))
        assert 0 <= gateway.until(Pong).resident_us < 10_000_000


def test_frames_beyond_the_window_are_rejected_and_those_within_answered(house: House) -> None:
    with greeted(house) as gateway:
        house.detector.gate.clear()
        for seq in range(1, 31):
            gateway.send(*frame(seq, DATA, codec="raw"))
        assert {gateway.until(Reject).reason for _ in range(22)} == {RejectReason.OVER_CREDIT}
        house.detector.gate.set()
        assert [gateway.until(Result).seq for _ in range(8)] == list(range(1, 9))
        house.counted(rejected=22, answered=8)
