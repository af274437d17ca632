"""One routing id of a ZeroMQ listener, as the service sees it: replies go out on the thread of whoever sends them."""

from collections import deque
from typing import Protocol

from protos.endpoint import Session
from protos.wire.messages import ToAgent
from protos.wire.multipart import Parts, pack_to_agent


class Sender(Protocol):
    """The listener that owns the socket."""

    def transmit(self, peer: "ZmqPeer", parts: Parts) -> bool:
        """False if the peer takes no more."""
        ...

    def look_at(self, peer: "ZmqPeer") -> None:
        """It is to be closed once its queue is empty."""
        ...


class ZmqPeer:
    """`lost`: found out while sending, the listener ends it; `heard_us`: when something last arrived; `descriptor`: of the
    connection it came on, -1 while that is not known."""

    def __init__(self, sender: Sender, routing_id: bytes) -> None:
        self.routing_id = routing_id
        self.queue: deque[Parts] = deque()
        self.gone = False
        self.lost = False
        self.closing = False
        self.heard_us = 0
        self.descriptor = -1
        self.session: Session | None = None
        self._sender = sender

    def send(self, message: ToAgent) -> bool:
        if self.gone or self.closing:
            return False
        return self._sender.transmit(self, pack_to_agent(message))

    def close(self) -> None:
        self.closing = True
        self._sender.look_at(self)
