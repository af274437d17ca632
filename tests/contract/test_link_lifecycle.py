"""What every link promises of its connections, whatever carries it: one suite over every kind of link."""

import errno
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from edge.links.base import Connected, Disconnected, Dropped, Received, Refused, Sent
from protos.wire.bulk import BulkBatch
from protos.wire.messages import ToWorker
from protos.wire.session import Error, Goodbye, Hello, Lane, Ping, Pong, RejectReason
from tests.support.endpoints import WELCOME, ScriptedSession
from tests.support.eventually import eventually
from tests.support.link_house import HELLO, KINDS, House, frame, link_house


@pytest.fixture(params=KINDS)
def house(request: pytest.FixtureRequest) -> Iterator[House]:
    with link_house(request.param) as made:
        yield made


def test_hello_is_the_first_message_on_each_lane_and_names_it(house: House) -> None:
    house.connect()
    for lane in Lane:
        (session,) = house.worker.on(lane)
        first = session.received[0]
        assert isinstance(first, Hello)
        assert (first.agent, first.run, first.lane, first.streams) == ("gw", bytes(16), lane, HELLO.streams)
        assert house.wait(Connected, lane=lane).welcome == WELCOME


def test_a_model_is_asked_for_on_the_live_lane_alone_because_records_need_none(house: House) -> None:
    house.place.up()
    house.link.start(replace(HELLO, model="yolox", model_sha256="ab" * 32), house.deliver)
    house.wait_connected()
    asked = {lane: house.worker.on(lane)[0].received[0] for lane in Lane}
    assert asked[Lane.LIVE] == replace(HELLO, model="yolox", model_sha256="ab" * 32)
    assert asked[Lane.BULK] == replace(HELLO, lane=Lane.BULK)


def test_the_link_starts_before_the_worker_and_finds_it_when_it_comes(house: House) -> None:
    house.start()
    assert house.link.send(*frame(1)) is Sent.DOWN
    assert house.all(Connected) == []
    house.place.up()
    house.wait_connected()
    assert house.link.send(*frame(2)) is Sent.ACCEPTED
    eventually(lambda: [getattr(m, "seq", 0) for m in house.messages()] == [2], what="the answer to frame 2")


def test_a_worker_that_is_there_is_found_at_once(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """By what it says, not because the link's thread happened to look again."""
    monkeypatch.setattr("edge.links.driver.LONGEST_WAIT_US", 60_000_000)
    monkeypatch.setattr("edge.links.lane.ATTEMPT_WITHIN_US", 60_000_000)
    house.connect()


def test_attempts_at_a_worker_that_is_not_there_end_at_once(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F08: one that is noticed late delays the next, and the far side with it."""
    monkeypatch.setattr("edge.links.driver.LONGEST_WAIT_US", 60_000_000)
    monkeypatch.setattr("edge.links.lane.ATTEMPT_WITHIN_US", 60_000_000)
    house.start()
    eventually(lambda: house.link.attempts >= 6, what="three attempts on each lane")


def test_a_worker_that_goes_is_reported_and_found_again_when_it_is_back(house: House) -> None:
    house.connect()
    for goes in (1, 2):
        first = {lane: house.wait(Connected, goes, lane=lane).connection for lane in Lane}
        house.place.down()
        for lane in Lane:
            gone = house.wait(Disconnected, goes, lane=lane)
            assert gone.connection == first[lane]
            assert gone.reason
            assert house.link.send(Ping(nonce=1, sent_mono_us=0), lane=lane) is Sent.DOWN
        house.place.up()
        house.wait_connected(goes + 1)
        for lane in Lane:
            assert house.wait(Connected, goes + 1, lane=lane).connection > first[lane]
    house.link.send(*frame(3))
    eventually(lambda: [getattr(m, "seq", 0) for m in house.messages()] == [3], what="an answer after it all")


def said_goodbye(session: ScriptedSession) -> bool:
    return isinstance(session.received[-1], Goodbye)


def test_the_worker_is_told_when_the_link_closes(house: House) -> None:
    house.connect()
    house.link.close()
    for lane in Lane:
        (session,) = house.worker.on(lane)
        eventually(partial(said_goodbye, session), what=f"goodbye on the {lane} lane")


def test_a_fresh_connection_takes_over_from_a_silent_one_and_both_are_heard(house: House) -> None:
    house.connect()
    (old,) = house.worker.on(Lane.LIVE)
    first = house.wait(Connected, lane=Lane.LIVE).connection
    old.deaf = True
    house.link.open_fresh()
    fresh = house.wait(Connected, 2, lane=Lane.LIVE).connection
    assert fresh > first
    assert len(house.all(Connected, Lane.BULK)) == 1
    house.link.send(*frame(4))
    eventually(lambda: len(house.messages()) == 1, what="the answer on the fresh connection")
    assert house.worker.on(Lane.LIVE)[1].frames
    assert not old.frames
    old.peer.send(Pong(nonce=77, arrived_mono_us=0, resident_us=0))
    eventually(
        lambda: [e.connection for e in house.all(Received) if isinstance(e.message, Pong)] == [first],
        what="the late reply on the old connection",
    )
    assert house.all(Disconnected) == []


def test_a_fresh_connection_of_the_bulk_lane_leaves_the_live_lane_alone(house: House) -> None:
    house.connect()
    (old,) = house.worker.on(Lane.BULK)
    old.deaf = True
    house.link.open_fresh(Lane.BULK)
    house.wait(Connected, 2, lane=Lane.BULK)
    assert len(house.all(Connected, Lane.LIVE)) == 1
    assert house.link.send(BulkBatch(batch=7), lane=Lane.BULK) is Sent.ACCEPTED
    fresh = house.worker.on(Lane.BULK)[1]
    eventually(
        lambda: any(isinstance(m, BulkBatch) for m in fresh.received), what="the batch on the fresh one"
    )
    assert not any(isinstance(m, BulkBatch) for m in old.received)
    assert house.all(Disconnected) == []


def test_no_more_than_four_connections_are_tried_at_once(house: House) -> None:
    house.connect()
    house.worker.silent = True
    for asked in range(1, 9):
        house.link.open_fresh()
        house.link.send(*frame(asked))  # answered by the connection that was welcomed, while others are tried
        house.wait_answers(asked)
    eventually(lambda: len(house.worker.on(Lane.LIVE)) == 5, what="four attempts beside the first")
    house.worker.silent = False
    for session in house.worker.on(Lane.LIVE)[1:3]:
        session.peer.send(WELCOME)
    house.wait(Connected, 2, lane=Lane.LIVE)
    house.link.send(*frame(9))
    eventually(lambda: len(house.messages()) == 9, what="an answer over the first that was welcomed")
    assert len(house.worker.on(Lane.LIVE)) == 5


def test_a_worker_that_has_forgotten_a_connection_gets_a_new_one_with_a_new_hello(house: House) -> None:
    house.connect()
    (old,) = house.worker.on(Lane.LIVE)
    first = house.wait(Connected, lane=Lane.LIVE).connection
    old.peer.send(Error(reason=RejectReason.HELLO_REQUIRED, text="who are you", retry=True))
    assert house.wait(Disconnected, lane=Lane.LIVE).connection == first
    assert house.wait(Connected, 2, lane=Lane.LIVE).connection > first
    house.link.send(*frame(1))
    eventually(lambda: len(house.messages()) == 1, what="an answer on the new connection")


def test_a_refused_hello_is_reported_in_words_and_tried_again(house: House) -> None:
    house.worker.refusal = Error(reason=RejectReason.NO_MODEL, text="model x is not served here", retry=True)
    house.place.up()
    house.start()
    for lane in Lane:
        refused = house.wait(Refused, 2, lane=lane)
        assert refused.error == house.worker.refusal
        assert house.link.send(Ping(nonce=1, sent_mono_us=0), lane=lane) is Sent.DOWN
    assert house.all(Connected) == []
    house.worker.refusal = None
    house.wait_connected()


def connected(house: House) -> None:
    house.connect()


def never_started(house: House) -> None:
    house.place.up()


def without_a_worker(house: House) -> None:
    house.start()


def refused(house: House) -> None:
    house.worker.refusal = Error(reason=RejectReason.NO_MODEL, text="no", retry=False)
    house.place.up()
    house.start()
    house.wait(Refused)


def full(house: House) -> None:
    house.connect()
    house.place.stop_reading()
    message: tuple[ToWorker, ...] = frame(1, b"z" * 1_000_000)
    eventually(
        lambda: house.link.send(*message) is Sent.FULL or bool(house.all(Dropped)), 10.0, "a full lane"
    )


def lost(house: House) -> None:
    house.connect()
    house.place.down()
    house.wait(Disconnected)


@pytest.mark.parametrize("state", [connected, never_started, without_a_worker, refused, full, lost])
def test_closing_takes_at_most_a_second_in_every_state_and_leaves_no_thread(
    house: House, state: Callable[[House], None]
) -> None:
    state(house)
    begun = time.perf_counter()
    house.link.close()
    assert time.perf_counter() - begun < 1.0
    assert [t.name for t in threading.enumerate() if t.name == "link-cable"] == []
    assert house.link.send(*frame(1)) is Sent.DOWN
    house.link.close()


def left(session: ScriptedSession) -> bool:
    """Whether the worker knows: a listener that sees its connections end, or one that has to be told."""
    return session.ended or said_goodbye(session)


@pytest.mark.parametrize("lane", Lane)
def test_a_worker_the_owner_refuses_is_left_with_the_owners_words_and_tried_again(
    house: House, lane: Lane
) -> None:
    house.connect()
    number = house.wait(Connected, lane=lane).connection
    house.link.refuse(number, "not this one")
    gone = house.wait(Disconnected, lane=lane)
    assert (gone.connection, gone.reason) == (number, "not this one")
    eventually(lambda: left(house.worker.on(lane)[0]), what="the end of the connection at the worker")
    house.wait(Connected, 2, lane=lane)
    assert len(house.all(Disconnected)) == 1, "the other lane goes on"


def test_a_fresh_connection_the_owner_refuses_leaves_the_older_one_serving(house: House) -> None:
    house.connect()
    house.link.open_fresh()
    house.link.refuse(house.wait(Connected, 2, lane=Lane.LIVE).connection, "not this one")
    old, fresh = house.worker.on(Lane.LIVE)
    eventually(lambda: left(fresh), what="the end of the fresh connection")
    house.link.send(*frame(1))
    house.wait_answers(1)
    assert [m.seq for m in old.frames] == [1, 1]
    assert house.all(Disconnected) == []


def test_attempts_that_cannot_even_be_started_are_made_again(
    house: House,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A process out of descriptors or threads is no reason to be without a cloud for ever."""
    module = sys.modules[type(house.link).__module__]
    (name,) = (n for n in vars(module) if n.endswith("Connection"))
    real = getattr(module, name)
    failed: list[int] = []

    def dial(*args: Any, **kwargs: Any) -> Any:
        if len(failed) < 2:
            failed.append(1)
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return real(*args, **kwargs)

    monkeypatch.setattr(module, name, dial)
    house.connect()
    assert len(failed) == 2
    assert house.link.attempts == 4
    assert "Too many open files" in caplog.text
    house.link.send(*frame(1))
    house.wait_answers(1)
