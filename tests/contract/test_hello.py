"""Who is turned away at Hello, with which words, and what it may try next: over every listener."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cloud.listeners.base import Listener
from cloud.listeners.kinds import LISTENERS
from edge.config.pipeline import FarConfig
from edge.links.base import Connected, LinkEvent, Refused
from edge.links.kinds import LINKS
from protos.wire.bulk import BulkBatch, Have
from protos.wire.live import Reject, Result
from protos.wire.session import Error, Hello, Lane, RejectReason, StreamInfo, Welcome
from tests.support.agents import HELLO, Agent, GrpcSpeaker, agent, frame, port_of
from tests.support.eventually import eventually
from tests.support.workers import MODEL, clock_us, service

KINDS = [kind.name for kind in LISTENERS]
FITTING: dict[str, Any] = {
    "model": MODEL,
    "model_sha256": "ab" * 32,
    "input_width_px": 32,
    "input_height_px": 24,
}


@pytest.fixture(params=KINDS)
def listener(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Listener]:
    """Of a worker with one model, at 32x24 px, with sha256 abab…"""
    with service(tmp_path) as (made, _):
        out: Listener = LISTENERS[request.param].resolve()(made, address="127.0.0.1:0", clock_us=clock_us)
        out.start()
        try:
            yield out
        finally:
            out.stop()


@contextmanager
def on_lane(listener: Listener, lane: Lane) -> Iterator[Agent]:
    with agent(listener.address) as made:
        if listener.address.startswith("grpc"):
            made.close()
            made.speaker = GrpcSpeaker(listener.address, lane)
        yield made


@pytest.mark.parametrize(
    ("changes", "reason", "words"),
    [
        ({"protocol_min": 7, "protocol_max": 9}, RejectReason.VERSION, "upgrade the older of the two"),
        ({"protocol_min": 0, "protocol_max": 0}, RejectReason.VERSION, "speaks protocol 1, the agent 0 to 0"),
        ({"model": "yolo"}, RejectReason.NO_MODEL, f"no model 'yolo'; it has {MODEL}"),
        (
            {"model_sha256": "cd" * 32},
            RejectReason.NO_MODEL,
            f"has sha256 {'ab' * 32}, wanted is {'cd' * 32}",
        ),
        (
            {"input_width_px": 64, "input_height_px": 48},
            RejectReason.NO_MODEL,
            "runs at 32x24 px, wanted is 64x48",
        ),
        ({"input_width_px": 32}, RejectReason.NO_MODEL, "wanted is 32x0"),
        ({"agent": "a b"}, RejectReason.NOT_ALLOWED, "name of the agent"),
        (
            {"streams": tuple(StreamInfo(name=f"s{i}", width_px=1, height_px=1) for i in range(17))},
            RejectReason.NOT_ALLOWED,
            "per_agent.streams (16)",
        ),
    ],
)
def test_a_hello_that_does_not_fit_is_refused_with_words_and_the_next_may_fit(
    listener: Listener, changes: dict[str, Any], reason: RejectReason, words: str
) -> None:
    with agent(listener.address) as gateway:
        gateway.send(replace(HELLO, **changes))
        error = gateway.until(Error)
        assert (error.reason, error.retry) == (reason, False)
        assert words in error.text
        gateway.send(replace(HELLO, **FITTING))
        welcome = gateway.until(Welcome)
        assert welcome.models[0].name == MODEL
        assert welcome.takes_frames
        gateway.send(*frame(1, b"0123456789", codec="raw"))
        assert gateway.until(Result).seq == 1


def test_each_lane_does_its_own_work_and_says_which_is_the_other(listener: Listener) -> None:
    with on_lane(listener, Lane.BULK) as bulk, on_lane(listener, Lane.LIVE) as live:
        bulk.send(replace(HELLO, lane=Lane.BULK))
        bulk.until(Welcome)
        bulk.send(*frame(1, b"0123456789", codec="raw"))
        reject = bulk.until(Reject)
        assert (reject.reason, reject.text) == (RejectReason.NOT_ALLOWED, "frames go on the live lane")
        live.send(HELLO)
        live.until(Welcome)
        for message in (BulkBatch(batch=1), Have(payloads=(), have=1)):
            live.send(message)
            error = live.until(Error)
            assert error.reason is RejectReason.NOT_ALLOWED
            assert "on the bulk lane" in error.text


def test_a_bulk_lane_is_served_while_there_is_no_live_one(listener: Listener) -> None:
    """Records need no model: an agent whose live lane is refused, or over budget, still brings what it has."""
    with on_lane(listener, Lane.BULK) as bulk, on_lane(listener, Lane.LIVE) as live:
        live.send(replace(HELLO, model="yolo"))
        assert live.until(Error).reason is RejectReason.NO_MODEL
        bulk.send(replace(HELLO, lane=Lane.BULK))
        bulk.until(Welcome)


@pytest.mark.parametrize(
    ("far", "words"),
    [
        ({"sha256": "cd" * 32}, "wanted is cdcd"),
        ({"input": "64x48"}, "wanted is 64x48"),
        ({"model": "yolo", "sha256": "ab" * 32}, "no model 'yolo'"),
    ],
)
def test_what_a_pipeline_asks_of_the_far_model_is_asked_at_hello_and_its_records_are_taken_all_the_same(
    listener: Listener, far: dict[str, str], words: str
) -> None:
    events = greeted(listener, FarConfig.model_validate(far).asked_in(HELLO))
    (refused, *_) = [e for e in events if isinstance(e, Refused)]
    assert refused.lane is Lane.LIVE
    assert words in refused.error.text
    assert not refused.error.retry
    assert [e.lane for e in events if isinstance(e, Connected)] == [Lane.BULK]


def test_a_pipeline_that_asks_for_what_there_is_is_welcomed_on_both_lanes(listener: Listener) -> None:
    far = FarConfig.model_validate({"model": MODEL, "sha256": "ab" * 32, "input": "32x24"})
    events = greeted(listener, far.asked_in(HELLO))
    assert {e.lane for e in events if isinstance(e, Connected)} == set(Lane)


def greeted(listener: Listener, hello: Hello) -> list[LinkEvent]:
    """What a link reports until both lanes had an answer to their Hello."""
    events: list[LinkEvent] = []
    kind = listener.address.partition("://")[0].replace("tcp", "zmq")
    link = LINKS[kind].resolve()(
        name="cable", url=f"{kind}://127.0.0.1:{port_of(listener.address)}", clock_us=clock_us
    )
    with closing(link):
        link.start(hello, events.append)
        eventually(
            lambda: {e.lane for e in tuple(events) if isinstance(e, Connected | Refused)} == set(Lane),
            what="an answer on both lanes",
        )
    return events
