"""Where a name leads: asked anew for every connection, each address in its turn, and never longer than allowed."""

import threading
from collections.abc import Sequence

import pytest

from edge.links import names
from edge.links.names import Names
from protos.wire.session import Lane
from tests.support.eventually import eventually


class NameServer:
    """Answers with `addresses`, or with an OSError while there are none. While `answers` is clear it hangs."""

    def __init__(self, *addresses: str) -> None:
        self.addresses = addresses
        self.asked = 0
        self.answers = threading.Event()
        self.answers.set()

    def __call__(self, host: str) -> Sequence[str]:
        self.asked += 1
        self.answers.wait(10.0)
        if not self.addresses:
            raise OSError("Name or service not known")
        return self.addresses


def made(server: NameServer, address: str = "worker:7440") -> Names:
    return Names(address, look_up=server)


def test_every_attempt_of_a_lane_takes_the_next_address_also_when_the_lanes_take_turns() -> None:
    found = made(NameServer("10.0.0.1", "10.0.0.2"))
    took: dict[Lane, list[str]] = {lane: [] for lane in Lane}
    for _ in range(4):
        for lane in Lane:
            took[lane].append(found.next(lane))
    assert took[Lane.LIVE] == ["10.0.0.1:7440", "10.0.0.2:7440"] * 2
    assert took[Lane.BULK] == took[Lane.LIVE]


def test_an_order_that_changes_with_every_answer_still_leads_to_each_address_in_turn() -> None:
    server = NameServer("10.0.0.1", "10.0.0.2")
    found = made(server)
    took = []
    for _ in range(4):
        took.append(found.next(Lane.LIVE))
        server.addresses = server.addresses[::-1]
    assert took == ["10.0.0.1:7440", "10.0.0.2:7440"] * 2


def test_a_name_is_asked_anew_each_time_and_leads_where_it_leads_now() -> None:
    server = NameServer("10.0.0.1")
    found = made(server)
    assert found.next(Lane.LIVE) == "10.0.0.1:7440"
    server.addresses = ("10.0.0.7",)
    assert found.next(Lane.LIVE) == "10.0.0.7:7440"
    assert server.asked == 2
    assert not found.several


def test_an_ipv6_address_comes_in_brackets_with_its_zone() -> None:
    found = made(NameServer("fe80::1%eth0", "10.0.0.1"))
    assert [found.next(Lane.LIVE) for _ in range(2)] == ["[fe80::1%eth0]:7440", "10.0.0.1:7440"]
    assert found.several


@pytest.mark.parametrize("address", ["127.0.0.1:7440", "[::1]:7440"])
def test_an_address_is_asked_of_nobody(address: str) -> None:
    server = NameServer()
    found = made(server, address)
    assert found.is_address
    assert found.next(Lane.LIVE) == address
    assert server.asked == 0


def test_a_name_that_leads_nowhere_says_so_and_is_asked_again() -> None:
    server = NameServer()
    found = made(server)
    with pytest.raises(OSError, match="worker: Name or service not known"):
        found.next(Lane.LIVE)
    server.addresses = ("10.0.0.1",)
    assert found.next(Lane.LIVE) == "10.0.0.1:7440"


@pytest.mark.parametrize("host", ["a..b", "x" * 64 + ".example"])
def test_what_can_be_no_name_is_an_error_in_words(host: str) -> None:
    with pytest.raises(OSError, match=r"is no name of a host|not known|No address"):
        names.look_up(host)


def test_a_name_server_that_hangs_is_asked_one_question_and_what_was_known_is_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(names, "NEWS_WITHIN_S", 0.01)
    monkeypatch.setattr(names, "FIRST_WITHIN_S", 0.01)
    server = NameServer("10.0.0.1", "10.0.0.2")
    found = made(server)
    server.answers.clear()
    with pytest.raises(OSError, match="the name server does not answer"):
        found.next(Lane.LIVE)
    server.answers.set()
    eventually(lambda: found.several, what="an answer after all")
    server.answers.clear()
    try:
        assert [found.next(Lane.LIVE) for _ in range(3)] == [
            "10.0.0.1:7440",
            "10.0.0.2:7440",
            "10.0.0.1:7440",
        ]
        assert server.asked == 2
    finally:
        server.answers.set()


def test_whoever_waits_for_the_name_server_goes_on_when_the_link_closes() -> None:
    server = NameServer("10.0.0.1")
    server.answers.clear()
    found = made(server)
    failed: list[OSError] = []

    def ask() -> None:
        try:
            found.next(Lane.LIVE)
        except OSError as error:
            failed.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        eventually(lambda: server.asked, what="a question")
        found.close()
        asking.join(5.0)
        assert len(failed) == 1
    finally:
        server.answers.set()
