"""What goes out on a ROUTER: at once, but for the replies of a thread that reads on at once."""

import threading
from collections.abc import Iterator

import pytest
import zmq

from cloud.listeners.zmq.peer import ZmqPeer
from cloud.listeners.zmq.replies import HELD_US, MOST_HELD, ZmqReplies
from protos.wire.multipart import Parts
from tests.support.eventually import eventually

KIND = b"\x02"


class Office:
    """A ROUTER with one agent on it, and the time in µs."""

    def __init__(self, context: "zmq.Context[zmq.Socket[bytes]]", *, max_queued: int = 8) -> None:
        self.now_us = 1_000
        router = context.socket(zmq.ROUTER)
        router.set(zmq.ROUTER_MANDATORY, 1)
        router.bind("inproc://office")
        self.agent = context.socket(zmq.DEALER)
        self.agent.set(zmq.ROUTING_ID, b"agent")
        self.agent.connect("inproc://office")
        self.replies = ZmqReplies(router, max_queued=max_queued, clock_us=lambda: self.now_us)
        self.peer = ZmqPeer(self, b"agent")

    def transmit(self, peer: ZmqPeer, parts: Parts) -> bool:
        return self.replies.send(peer, parts)[0]

    def look_at(self, peer: ZmqPeer) -> None:
        self.replies.look_at(peer)

    def say(self, header: bytes) -> bool:
        return self.transmit(self.peer, (KIND, header))

    def arrived(self) -> list[bytes]:
        """What the agent has got since it was last asked."""
        out = []
        while self.agent.poll(0):
            out.append(self.agent.recv_multipart()[1])
        return out

    def due(self) -> bool:
        return self.replies.due

    def close(self) -> None:
        self.agent.close(0)
        self.replies.close(0)


@pytest.fixture
def office() -> Iterator[Office]:
    context = zmq.Context[zmq.Socket[bytes]]()
    made = Office(context)
    yield made
    made.close()
    context.term()


def test_a_reply_goes_out_at_once(office: Office) -> None:
    assert office.say(b"one")
    assert office.arrived() == [b"one"]
    assert not office.replies.due


def test_what_the_reading_thread_says_while_it_holds_goes_out_together_and_in_order(office: Office) -> None:
    office.replies.hold()
    assert office.say(b"one")
    assert office.say(b"two")
    assert office.arrived() == []
    assert office.replies.let_go()
    assert office.arrived() == [b"one", b"two"]
    assert not office.replies.let_go(), "nothing is held any more"
    office.say(b"three")
    assert office.arrived() == [b"three"]


def test_what_another_thread_says_meanwhile_keeps_its_place_behind_what_is_held(office: Office) -> None:
    office.replies.hold()
    office.say(b"one")
    other = threading.Thread(target=office.say, args=(b"two",))
    other.start()
    other.join(10.0)
    office.replies.let_go()
    assert office.arrived() == [b"one", b"two"]


def test_another_threads_reply_to_an_agent_of_which_nothing_is_held_goes_out_at_once(office: Office) -> None:
    office.replies.hold()
    other = threading.Thread(target=office.say, args=(b"one",))
    other.start()
    other.join(10.0)
    assert office.arrived() == [b"one"]


def test_what_is_held_is_due_once_it_is_enough_or_once_its_time_is_over(office: Office) -> None:
    office.replies.hold()
    office.say(b"first")
    assert not office.due()
    office.now_us += HELD_US
    assert office.due()
    office.replies.let_go()
    assert not office.due()
    office.replies.hold()
    for number in range(MOST_HELD):
        assert not office.due()
        office.say(bytes((number,)))
    assert office.due()


def test_an_agent_that_takes_no_more_is_told_so_while_replies_are_held_too(office: Office) -> None:
    office.replies.hold()
    assert [office.say(b"x") for _ in range(10)] == [True] * 8 + [False] * 2


def test_a_reply_held_for_an_agent_that_is_gone_meanwhile_makes_it_one_to_be_forgotten(
    office: Office,
) -> None:
    office.replies.hold()
    office.say(b"one")
    office.agent.close(0)
    office.replies.let_go()

    def lost() -> bool:
        office.say(b"x")
        return office.peer.lost

    eventually(lost, what="its end")
    assert office.replies.flush() == [office.peer]
    assert office.replies.forget(office.peer)
    assert not office.replies.forget(office.peer)
    assert not office.say(b"two")


def test_the_reader_is_asked_to_look_only_if_it_may_sleep_on_a_message(office: Office) -> None:
    office.agent.send_multipart([KIND, b"news"])
    office.replies.awake = True
    assert office.replies.send(office.peer, (KIND, b"one")) == (True, False)
    office.replies.awake = False
    assert office.replies.send(office.peer, (KIND, b"two")) == (True, True)
