"""Hello first: who is welcomed, who is refused, and whose name it is."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from cloud.agents.session import WorkerSession
from pipelines.errors import ConfigError
from protos.wire.live import Reject
from protos.wire.session import (
    Error,
    Hello,
    Lane,
    Ping,
    Pong,
    RejectReason,
    StreamInfo,
    Welcome,
)
from tests.support.peers import FakePeer
from tests.support.rigs import HELLO, OTHER_RUN, Rig, rig_in
from tests.support.workers import MODEL, clock_us, service


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with rig_in(tmp_path) as made:
        yield made


def test_nothing_is_served_before_a_hello(rig: Rig) -> None:
    rig.session.receive(Ping(nonce=1, sent_mono_us=0), clock_us())
    rig.head(1)
    rig.body(1)
    assert rig.errors() == [RejectReason.HELLO_REQUIRED]
    assert rig.peer.only(Reject).reason is RejectReason.HELLO_REQUIRED


def test_a_welcome_names_models_limits_credit_and_the_store(rig: Rig) -> None:
    rig.welcome()
    welcome = rig.peer.only(Welcome)
    assert [(m.name, m.sha256, m.labels) for m in welcome.models] == [(MODEL, "ab" * 32, ("thing",))]
    assert welcome.store_id == rig.store.store_id
    assert welcome.credit.frames == 8


@pytest.mark.parametrize(("wanted", "names"), [("", ["b", "a", "c"]), ("c", ["c", "a", "b"])])
def test_a_welcome_names_the_model_its_connection_runs_first(
    tmp_path: Path, wanted: str, names: list[str]
) -> None:
    with service(tmp_path, models=("a", "b", "c"), default_model="b") as (made, _):
        peer = FakePeer()
        session = made.open(peer)
        session.receive(replace(HELLO, model=wanted), clock_us())
        assert [m.name for m in peer.only(Welcome).models] == names
        assert session.model == names[0]


@pytest.mark.parametrize(
    ("hello", "reason", "words"),
    [
        (replace(HELLO, protocol_min=7, protocol_max=9), RejectReason.VERSION, "protocol 1"),
        (replace(HELLO, model="yolo"), RejectReason.NO_MODEL, "it has synthetic"),
        (replace(HELLO, model_sha256="cd" * 32), RejectReason.NO_MODEL, "has sha256"),
        (replace(HELLO, agent=""), RejectReason.NOT_ALLOWED, "name of the agent"),
        (replace(HELLO, streams=HELLO.streams * 2), RejectReason.NOT_ALLOWED, "same name"),
        (
            replace(HELLO, streams=(StreamInfo(name="a", width_px=0, height_px=9),)),
            RejectReason.NOT_ALLOWED,
            "width",
        ),
        (
            replace(
                HELLO, streams=tuple(StreamInfo(name=str(i), width_px=1, height_px=1) for i in range(17))
            ),
            RejectReason.NOT_ALLOWED,
            "17 streams",
        ),
    ],
)
def test_a_hello_that_cannot_be_served_is_refused_with_words(
    rig: Rig, hello: Hello, reason: RejectReason, words: str
) -> None:
    rig.session.receive(hello, clock_us())
    error = rig.peer.only(Error)
    assert error.reason is reason
    assert words in error.text
    assert not error.retry


def test_a_model_of_another_file_than_wanted_does_not_start(tmp_path: Path) -> None:
    with ExitStack() as stack, pytest.raises(ConfigError, match="wanted is"):
        stack.enter_context(service(tmp_path, sha256="cd" * 32))


@pytest.fixture
def frozen(tmp_path: Path) -> Iterator[Rig]:
    with rig_in(tmp_path, timer=False) as made:
        made.session.receive(HELLO, 0)
        yield made


CLONE = replace(HELLO, run=OTHER_RUN)


def newcomer(rig: Rig) -> tuple[FakePeer, WorkerSession]:
    peer = FakePeer()
    session = rig.service.open(peer)
    session.receive(CLONE, 1_000)
    return peer, session


def test_a_second_agent_of_the_same_name_is_refused_while_the_first_answers(frozen: Rig) -> None:
    peer, _ = newcomer(frozen)
    assert peer.sent == []
    ping = frozen.peer.only(Ping)
    frozen.session.receive(Pong(nonce=ping.nonce, arrived_mono_us=0, resident_us=0), 2_000)
    error = peer.only(Error)
    assert error.reason is RejectReason.NOT_ALLOWED
    assert "cloned card" in error.text
    frozen.service.tick(10_000_000)
    assert peer.all(Welcome) == []


def test_a_name_whose_owner_is_silent_goes_to_the_newcomer_after_half_a_second(frozen: Rig) -> None:
    peer, _ = newcomer(frozen)
    frozen.service.tick(500_999)
    assert peer.sent == []
    frozen.service.tick(501_000)
    peer.only(Welcome)
    frozen.head(1)
    assert frozen.peer.only(Reject).reason is RejectReason.HELLO_REQUIRED


def test_a_name_whose_owner_is_gone_goes_to_the_newcomer_at_once(frozen: Rig) -> None:
    frozen.peer.gone = True
    peer, _ = newcomer(frozen)
    peer.only(Welcome)


def test_an_owner_that_leaves_while_asked_frees_its_name(frozen: Rig) -> None:
    peer, _ = newcomer(frozen)
    frozen.session.closed()
    peer.only(Welcome)


def test_a_stale_pong_does_not_refuse_anybody(frozen: Rig) -> None:
    peer, _ = newcomer(frozen)
    nonce = frozen.peer.only(Ping).nonce
    frozen.session.receive(Pong(nonce=nonce + 1, arrived_mono_us=0, resident_us=0), 2_000)
    assert peer.sent == []


def test_a_newcomer_that_leaves_while_waiting_is_never_welcomed(frozen: Rig) -> None:
    peer, session = newcomer(frozen)
    session.closed()
    frozen.service.tick(600_000)
    assert peer.sent == []


def test_the_same_run_may_connect_again_beside_its_older_connection(rig: Rig) -> None:
    rig.welcome()
    second, _ = rig.connect(HELLO)
    bulk, _ = rig.connect(replace(HELLO, lane=Lane.BULK))
    second.only(Welcome)
    bulk.only(Welcome)
    assert rig.service.sessions == 3
    assert rig.peer.all(Ping) == []
