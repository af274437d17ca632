"""Field cases of a way that changes while nobody says so: a NAT forgets the connection, a name leads elsewhere.

Far must be back within 1.5 s of the change, over new connections that look the name up anew; frames are answered near
meanwhile.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from cloud.listeners.kinds import LISTENERS
from edge.agent import Agent
from edge.config.pipeline import load_pipeline
from edge.links.kinds import LINKS
from nearfar.relay import Relay
from pipelines.codecs.jpeg import JpegCodec
from pipelines.result import AnsweredBy
from pipelines.runtime import monotonic_us
from protos.endpoint import Endpoint
from tests.support.eventually import eventually
from tests.support.rig import Answer, Rig, free_port, rig
from tests.support.switch import Switch
from tests.support.workers import service

pytestmark = pytest.mark.alone

KINDS = ["zmq", "grpc"]
BACK_WITHIN_S = 1.5
FIRST, SECOND = "127.0.0.1", "127.0.0.2"

PIPELINE = """\
version: 1
agent: gateway
state_dir: {root}/gateway
deadline: 1s
rtt_budget: {{fall_back_above: 200ms, return_below: 100ms}}
streams:
  cam: {{source: {{kind: synthetic, size: 320x240, fps: 25}}}}
near: {{detector: {{kind: synthetic, delay: 10ms}}}}
"""


def far_since(r: Rig, unix_s: float) -> list[Answer]:
    """Far answers to frames that were captured since then."""
    return [a for a in r.answers if a["answered_by"] == "far" and a["captured_unix_ms"] >= unix_s * 1000]


@pytest.mark.parametrize("kind", KINDS)
def test_a_nat_that_forgets_the_connection_is_noticed_by_pings_and_far_is_back_over_a_new_one(
    tmp_path: Path, kind: str
) -> None:
    """F05, F30: both ends believe in a connection that carries nothing any more."""
    with Switch() as switch, rig(tmp_path, link=kind, link_port=switch.port) as r:
        switch.target = r.port
        r.start_worker()
        r.start_agent()
        r.wait_answers("far", 20)
        switch.forget()
        forgotten_s = time.time()  # not before: until it has forgotten, frames pass
        first = eventually(lambda: far_since(r, forgotten_s + 0.05), 5.0, "a far answer")[0]
        took_s = (first["captured_unix_ms"] + first["latency_ms"]) / 1000 - forgotten_s
        summary = r.stop_agent()
        assert took_s <= BACK_WITHIN_S
        late = [
            (a["seq"], a["answered_by"], a["latency_ms"], a["reason"], a["timing"])
            for a in r.seen
            if not a["on_time"]
        ]
        assert late == []
        assert summary["links"]["cable"]["connections"] >= 2
        near = [
            a for a in r.seen if a["answered_by"] == "near" and a["captured_unix_ms"] > forgotten_s * 1000
        ]
        assert near, "somebody answered meanwhile"


@contextmanager
def listening(kind: str, endpoint: Endpoint) -> Iterator[str]:
    """The `HOST:PORT` of a worker."""
    port = free_port()
    listener = LISTENERS[kind].resolve()(endpoint, address=f"{FIRST}:{port}", clock_us=monotonic_us)
    listener.start()
    try:
        yield f"{FIRST}:{port}"
    finally:
        listener.stop()


class Names:
    """A name server: it says where the worker lives at present."""

    def __init__(self) -> None:
        self.address = FIRST

    def look_up(self, _: str) -> Sequence[str]:
        return (self.address,)


@pytest.mark.parametrize("kind", KINDS)
def test_a_name_that_leads_elsewhere_is_followed_when_the_old_address_falls_silent(
    tmp_path: Path, kind: str
) -> None:
    """F30: the worker moved; nobody closes the old connections, nothing comes on them any more."""
    (tmp_path / "pipeline.yaml").write_text(PIPELINE.format(root=tmp_path))
    port, names = free_port(), Names()
    with ExitStack() as stack:
        old, new = (_worker(stack, tmp_path, kind, host, port) for host in (FIRST, SECOND))
        link: Any = LINKS[kind].resolve()(
            name="cable", url=f"{kind}://worker:{port}", clock_us=monotonic_us, look_up=names.look_up
        )
        agent = Agent(load_pipeline(tmp_path / "pipeline.yaml"), link=link)
        stack.callback(agent.close)
        agent.start()
        answered = agent.counters.answered
        eventually(lambda: answered[AnsweredBy.FAR] >= 20, 10.0, "far answers")
        old.set(state="stall")
        names.address = SECOND
        moved_s = time.monotonic()
        assert new.up.bytes == 0, "nobody was there yet"
        before = _settled(lambda: answered[AnsweredBy.FAR])
        eventually(lambda: answered[AnsweredBy.FAR] > before, 5.0, "a far answer from the new address")
        took_s = time.monotonic() - moved_s
        agent.stop_capture()
        agent.drain(Event(), 5_000_000)
        agent.close()
    assert took_s <= BACK_WITHIN_S
    assert answered[AnsweredBy.MISSED] == 0
    assert agent.broken == []


def _worker(stack: ExitStack, root: Path, kind: str, host: str, port: int) -> Relay:
    """The way to a worker of the one record store, at an address that can fall silent."""
    made, _ = stack.enter_context(service(root, codecs={"jpeg": JpegCodec()}))
    relay = Relay(listen=f"{host}:{port}", to=stack.enter_context(listening(kind, made)))
    relay.start()
    stack.callback(relay.stop)
    return relay


def _settled(count: Callable[[], int]) -> int:
    """What it is once it has stood for 150 ms: what was under way has come."""
    seen, since_s = count(), time.monotonic()

    def stands() -> bool:
        nonlocal seen, since_s
        if count() != seen:
            seen, since_s = count(), time.monotonic()
        return time.monotonic() - since_s > 0.15

    eventually(stands, 2.0, "the end of what was under way")
    return seen
