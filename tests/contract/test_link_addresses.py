"""What a link makes of a name with several addresses: none that is frozen or gone is tried for ever, over any wire."""

import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager

import pytest

from cloud.listeners.kinds import LISTENERS
from edge.links.base import Connected, Link, LinkEvent
from edge.links.kinds import LINKS
from pipelines.runtime import monotonic_us
from protos.wire.session import Lane
from tests.support.agents import HELLO
from tests.support.endpoints import ScriptedEndpoint
from tests.support.eventually import eventually
from tests.support.rig import free_port

KINDS = [kind.name for kind in LINKS]
FIRST, SECOND = "127.0.0.1", "127.0.0.2"
WELCOMED_WITHIN_S = 1.5


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@contextmanager
def worker(kind: str, host: str, port: int) -> Iterator[ScriptedEndpoint]:
    endpoint = ScriptedEndpoint()
    listener = LISTENERS[kind].resolve()(endpoint, address=f"{host}:{port}", clock_us=monotonic_us)
    listener.start()
    try:
        yield endpoint
    finally:
        endpoint.reading.set()
        listener.stop()


class Wire:
    """A link to the name `worker`, and what it reported."""

    def __init__(self, kind: str, port: int, look_up: Callable[[str], Sequence[str]]) -> None:
        self.events: list[LinkEvent] = []
        self.link: Link = LINKS[kind].resolve()(
            name="cable", url=f"{kind}://worker:{port}", clock_us=monotonic_us, look_up=look_up
        )
        self.link.start(HELLO, self.events.append)

    def close(self) -> None:
        self.link.close()

    def welcomes(self, lane: Lane) -> int:
        return sum(isinstance(e, Connected) and e.lane is lane for e in tuple(self.events))

    def wait_welcomed(self, count: int = 1, *, within_s: float = WELCOMED_WITHIN_S) -> None:
        eventually(
            lambda: all(self.welcomes(lane) >= count for lane in Lane), within_s, f"a Welcome: {self.events}"
        )


def both(_: str) -> Sequence[str]:
    return FIRST, SECOND


def test_where_the_first_address_is_frozen_the_second_welcomes_soon(kind: str) -> None:
    """F04, F07: it takes the connection, as a frozen process's kernel does, and says nothing."""
    port = free_port()
    with (
        socket.create_server((FIRST, port)),
        worker(kind, SECOND, port),
        closing(Wire(kind, port, both)) as wire,
    ):
        wire.wait_welcomed()


def test_where_nobody_listens_at_the_first_address_the_second_welcomes_soon(kind: str) -> None:
    port = free_port()
    with worker(kind, SECOND, port), closing(Wire(kind, port, both)) as wire:
        wire.wait_welcomed()


def test_a_fresh_connection_beside_one_that_is_silent_leads_to_the_other_worker(kind: str) -> None:
    port = free_port()
    with ExitStack() as stack:
        first = stack.enter_context(worker(kind, FIRST, port))
        second = stack.enter_context(worker(kind, SECOND, port))
        wire = stack.enter_context(closing(Wire(kind, port, both)))
        wire.wait_welcomed()
        assert (len(first.on(Lane.LIVE)), len(second.on(Lane.LIVE))) == (1, 0)
        first.reading.clear()
        wire.link.open_fresh()
        eventually(lambda: wire.welcomes(Lane.LIVE) == 2, WELCOMED_WITHIN_S, "a Welcome of the other")
        assert len(second.on(Lane.LIVE)) == 1
        first.reading.set()


def test_a_worker_found_under_one_address_is_not_looked_for_under_the_other(kind: str) -> None:
    port = free_port()
    with worker(kind, FIRST, port) as first, worker(kind, SECOND, port) as second:
        with closing(Wire(kind, port, both)) as wire:
            wire.wait_welcomed()
            assert wire.link.attempts == len(Lane)
        assert (len(first.sessions), len(second.sessions)) == (len(Lane), 0)


def test_while_the_name_server_hangs_the_present_connection_goes_on_and_the_link_closes_in_time(
    kind: str,
) -> None:
    port, hangs = free_port(), threading.Event()
    asked = []

    def at_first(_: str) -> Sequence[str]:
        asked.append(1)
        if len(asked) > 1:
            hangs.wait(10.0)
        return (FIRST,)

    with worker(kind, FIRST, port) as served:
        wire = Wire(kind, port, at_first)
        try:
            eventually(lambda: wire.welcomes(Lane.LIVE) == 1, what="a Welcome")
            wire.link.open_fresh()
            eventually(lambda: wire.welcomes(Lane.LIVE) == 2, what="a Welcome where it was known to be")
            assert len(served.on(Lane.LIVE)) == 2
        finally:
            begun_s = time.monotonic()
            wire.close()
            took_s = time.monotonic() - begun_s
            hangs.set()
        assert took_s < 1.0
