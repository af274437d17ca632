"""The connection of a webhook: whatever the other side does, an attempt costs its timeout and can be interrupted."""

import re
import socket
import threading
import time
from contextlib import ExitStack
from functools import partial

import psutil
import pytest

from edge.sinks.delivery.courier import NotNowError
from tests.support.eventually import eventually
from tests.support.receiver import Receiver
from tests.support.rig import free_port
from tests.support.webhooks import couriers, parcels

connections = partial(psutil.Process().net_connections, "tcp")  # begun ones too


@pytest.fixture
def receiver():
    with Receiver() as made:
        yield made


@pytest.fixture
def courier(tmp_path):
    with couriers(tmp_path) as make:
        yield make


def test_a_server_that_hangs_costs_its_timeout_and_no_more(receiver, courier):
    receiver.hangs.set()
    with pytest.raises(NotNowError, match=re.escape("no answer within 0.2 s")):
        courier(url=receiver.url, timeout="200ms").deliver(parcels(1))


def test_a_server_that_drips_bytes_for_ever_is_cut_off_at_the_same_time(receiver, courier):
    receiver.drips.set()
    with pytest.raises(NotNowError, match=re.escape("no answer within 0.2 s")):
        courier(url=receiver.url, timeout="200ms").deliver(parcels(1))


def test_a_server_that_takes_no_bytes_is_cut_off_too(courier):
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        made = courier(url=f"http://127.0.0.1:{deaf.getsockname()[1]}/", timeout="200ms")
        with pytest.raises(NotNowError, match="no answer within"):
            made.deliver(parcels(*range(1, 20_000)))


def test_a_server_that_is_not_there_is_said_with_its_address(courier):
    port = free_port()
    with pytest.raises(NotNowError, match=f"http://127.0.0.1:{port}: Connection refused"):
        courier(url=f"http://127.0.0.1:{port}/secret-path").deliver(parcels(1))


@pytest.fixture
def dead():
    """An address that answers no connection: its queue is full."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(3):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield listener.getsockname()


def name_leads_to(monkeypatch, *addresses):
    found = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", address) for address in addresses]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)


def test_a_name_with_many_dead_addresses_costs_the_timeout_once(courier, monkeypatch, dead):
    name_leads_to(monkeypatch, *[dead] * 8)
    made = courier(url="http://plant.example/", timeout="300ms")
    begun = time.monotonic()
    with pytest.raises(NotNowError, match=r"no answer within 0\.3 s"):
        made.deliver(parcels(1))
    assert time.monotonic() - begun < 1.2  # 2.4 s when each has its own


def test_a_dead_address_leaves_time_for_the_next(receiver, courier, monkeypatch, dead):
    name_leads_to(monkeypatch, dead, ("127.0.0.1", receiver.port))
    assert courier(url="http://plant.example/answers", timeout="2s").deliver(parcels(1)) == 1
    assert receiver.requests[0][0]["Host"] == "plant.example"


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_whatever_a_connection_is_waiting_for_it_can_be_interrupted(courier, monkeypatch, dead, scheme):
    with socket.socket() as mute:  # takes the connection and never shakes hands
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        name_leads_to(monkeypatch, dead if scheme == "http" else mute.getsockname())
        made = courier(url=f"{scheme}://plant.example/", timeout="30s")
        said = []

        def deliver():
            with pytest.raises(NotNowError) as told:
                made.deliver(parcels(1))
            said.append(str(told.value))

        thread = threading.Thread(target=deliver)
        thread.start()
        address = dead if scheme == "http" else mute.getsockname()
        eventually(lambda: address in [tuple(one.raddr) for one in connections()], what="the attempt")
        made.interrupt()
        thread.join(5)
        assert said == [f"{scheme}://plant.example: interrupted"]


def test_a_connection_the_server_closed_meanwhile_is_made_anew_at_once(courier):
    first = Receiver()
    made = courier(url=first.url)
    made.deliver(parcels(1))
    first.close()
    with Receiver(port=first.port) as second:
        assert made.deliver(parcels(2)) == 1
        assert second.seqs == [2]


def test_connections_are_kept_between_batches(receiver, courier):
    made = courier(url=receiver.url)
    for seq in range(1, 5):
        made.deliver(parcels(seq))
    assert len(receiver.connections) == 1
