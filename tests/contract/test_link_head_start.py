"""Over every wire: a head goes ahead of its body where that gains something, and with it where it does not."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

from cloud.listeners.kinds import LISTENERS
from edge.links.base import Connected, Received, Sent
from pipelines.runtime import monotonic_us
from protos.wire import envelope, multipart
from protos.wire.live import FrameBody, FrameHead
from protos.wire.session import Lane
from tests.support.agents import frame, port_of
from tests.support.endpoints import ScriptedEndpoint
from tests.support.wires import Wire

SHAPES: dict[str, ModuleType] = {"zmq": multipart, "grpc": envelope}
FRAMES = range(1, 13)


@pytest.fixture(params=list(SHAPES))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def ends(kind: str) -> Iterator[tuple[Wire, ScriptedEndpoint]]:
    endpoint = ScriptedEndpoint()
    listener = LISTENERS[kind].resolve()(endpoint, address="127.0.0.1:0", clock_us=monotonic_us)
    listener.start()
    with closing(Wire(kind, port_of(listener.address))) as made:
        made.wait(Connected, 2)
        yield made, endpoint
    listener.stop()


def packed_by(kind: str, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the frames that a link of this kind has made one message of, as they are made."""
    packed: list[int] = []
    pack = SHAPES[kind].pack_frame

    def counted(head: FrameHead, body: FrameBody) -> Any:
        packed.append(head.seq)
        return pack(head, body)

    monkeypatch.setattr(SHAPES[kind], "pack_frame", counted)
    return packed


@pytest.mark.parametrize(("spread_us", "together"), [(100, True), (5000, False), (0, False)])
def test_head_and_body_share_a_message_only_where_the_head_gains_nothing(
    ends: tuple[Wire, ScriptedEndpoint],
    kind: str,
    spread_us: int,
    together: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whichever way they travel, a session gets the head, then the body."""
    wire, endpoint = ends
    endpoint.spread_us = spread_us
    packed = packed_by(kind, monkeypatch)
    for seq in FRAMES:
        assert wire.link.send(*frame(seq, b"x" * 30_000)) is Sent.ACCEPTED
        wire.wait(Received, seq)
    (session,) = endpoint.on(Lane.LIVE)
    assert [m.seq for m in session.frames] == [seq for seq in FRAMES for _ in range(2)]
    assert [type(m) for m in session.frames] == [FrameHead, FrameBody] * len(FRAMES)
    assert bool(packed) is together


def test_a_worker_of_an_earlier_build_is_sent_no_frame_in_one_message(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its Welcome says nothing of them, however quick the network; so it does not matter who is brought up to date first."""
    endpoint = ScriptedEndpoint()
    endpoint.welcome = replace(endpoint.welcome, takes_frames=False)
    endpoint.spread_us = 100
    packed = packed_by(kind, monkeypatch)
    listener = LISTENERS[kind].resolve()(endpoint, address="127.0.0.1:0", clock_us=monotonic_us)
    listener.start()
    try:
        with closing(Wire(kind, port_of(listener.address))) as wire:
            wire.wait(Connected, 2)
            for seq in FRAMES:
                assert wire.link.send(*frame(seq, b"x" * 30_000)) is Sent.ACCEPTED
                wire.wait(Received, seq)
    finally:
        listener.stop()
    (session,) = endpoint.on(Lane.LIVE)
    assert [m.seq for m in session.frames] == [seq for seq in FRAMES for _ in range(2)]
    assert packed == []
