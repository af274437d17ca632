"""What only the link in memory can do: be as slow, as silent or as absent as a test asks."""

from collections.abc import Iterator

import pytest

from edge.links.base import Connected, Disconnected, LinkEvent, Received, Refused, Sent
from edge.links.memory import MemoryLink
from pipelines.runtime import monotonic_us
from protos.wire import multipart
from protos.wire.session import Hello, Lane, Ping, Pong
from tests.support.endpoints import ScriptedEndpoint
from tests.support.eventually import eventually

HELLO = Hello(agent="gw", run=bytes(16), lane=Lane.LIVE)


class House:
    def __init__(self) -> None:
        self.worker = ScriptedEndpoint()
        self.events: list[LinkEvent] = []
        self.link = MemoryLink(name="cable", endpoint=self.worker, clock_us=monotonic_us)

    def count(self, kind: type) -> int:
        return sum(isinstance(e, kind) for e in tuple(self.events))

    def pongs(self) -> list[tuple[int, int]]:
        """(nonce, arrived_us) of every pong so far."""
        return [
            (e.message.nonce, e.arrived_us)
            for e in tuple(self.events)
            if isinstance(e, Received) and isinstance(e.message, Pong)
        ]

    def ping(self, nonce: int) -> Sent:
        return self.link.send(Ping(nonce=nonce, sent_mono_us=0))

    def wait_pongs(self, nonces: list[int]) -> None:
        eventually(lambda: [n for n, _ in self.pongs()] == nonces, what=f"pongs {nonces}; {self.pongs()}")


@pytest.fixture
def house() -> Iterator[House]:
    made = House()
    made.link.start(HELLO, made.events.append)
    eventually(lambda: made.count(Connected) == 2, what="both lanes")
    yield made
    made.link.close()


def test_a_message_takes_the_delay_there_and_again_back(house: House) -> None:
    house.link.set_delay(30_000)
    sent_us = monotonic_us()
    house.ping(1)
    house.wait_pongs([1])
    assert 60_000 <= house.pongs()[0][1] - sent_us < 160_000


def test_a_shorter_delay_lets_nothing_overtake(house: House) -> None:
    house.link.set_delay(100_000)
    house.ping(1)
    house.link.set_delay(0)
    house.ping(2)
    house.wait_pongs([1, 2])


def test_a_stall_is_told_to_nobody_and_lets_everything_through_in_order_when_it_ends(house: House) -> None:
    house.link.stall()
    assert [house.ping(n) for n in (1, 2, 3)] == [Sent.ACCEPTED] * 3
    assert [type(e) for e in house.events] == [Connected, Connected]
    assert not [m for s in house.worker.sessions for m in s.received if isinstance(m, Ping)]
    house.link.resume()
    house.wait_pongs([1, 2, 3])
    assert house.count(Disconnected) == 0


def test_a_cut_loses_what_is_under_way_even_when_it_heals_at_once(house: House) -> None:
    house.link.set_delay(50_000)
    house.ping(1)
    house.link.cut()
    house.link.heal()
    eventually(lambda: house.count(Disconnected) == 2, what="both lanes reported")
    eventually(lambda: house.count(Connected) == 4, what="both lanes again")
    house.ping(2)
    house.wait_pongs([2])
    assert [s.ended for s in house.worker.sessions] == [True, True, False, False]


def test_a_worker_that_hangs_up_is_tried_again(house: House) -> None:
    house.worker.sessions[0].peer.close()
    eventually(lambda: house.count(Connected) == 3, what="a new connection")
    assert house.count(Disconnected) == 1
    assert not house.worker.sessions[0].peer.send(Pong(nonce=1, arrived_mono_us=0, resident_us=0))


def test_a_worker_that_breaks_on_a_message_keeps_the_connection(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    (live,) = house.worker.on(Lane.LIVE)

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(live, "receive", broken)
        house.ping(1)
        eventually(lambda: len(live.refused) == 1, what="words about the message")
    house.ping(2)
    house.wait_pongs([2])
    assert house.count(Disconnected) == house.count(Refused) == 0


def test_what_was_sent_is_counted_as_the_wire_packs_it(house: House) -> None:
    before = house.link.bytes_sent()
    ping = Ping(nonce=7, sent_mono_us=123)
    house.link.send(ping)
    house.wait_pongs([7])
    assert house.link.bytes_sent() - before == sum(map(len, multipart.pack_to_worker(ping)))
