"""One ZeroMQ connection to a worker: a DEALER that connects once, greets, and is thrown away when it breaks.

Reconnecting is the link's business (a fresh socket resolves the name anew and starts with empty queues), so
the socket's own is turned off. Used by the link's thread alone.
"""

from collections import deque
from enum import Enum
from typing import Any

import zmq
from zmq.utils.monitor import recv_monitor_message

from protos.wire import multipart
from protos.wire.messages import ToWorker
from protos.wire.session import Lane

ATTEMPT_WITHIN_US = 2_000_000
SEND_HIGH_WATER = 8  # messages: four frames of head and body
ZERO_COPY_BYTES = 65_536
LARGEST_REPLY_BYTES = 8 << 20
GOODBYE_LINGER_MS = 100

_ENDED = (
    zmq.Event.DISCONNECTED
    | zmq.Event.CLOSED
    | zmq.Event.CONNECT_RETRIED
    | zmq.Event.HANDSHAKE_FAILED_NO_DETAIL
    | zmq.Event.HANDSHAKE_FAILED_PROTOCOL
    | zmq.Event.HANDSHAKE_FAILED_AUTH
)


class State(Enum):
    CONNECTING = "connecting"
    GREETING = "greeting"  # Hello is on its way, no Welcome yet
    READY = "ready"
    BROKEN = "broken"


class Connection:
    """`number` rises with every connection of a link; `since_us` is when the present state began."""

    def __init__(
        self, context: "zmq.Context[zmq.Socket[bytes]]", *, number: int, lane: Lane, address: str, now_us: int
    ) -> None:
        self.number = number
        self.lane = lane
        self.state = State.CONNECTING
        self.since_us = now_us
        self.superseded_us: int | None = None
        self.reason = ""
        self.bytes_sent = 0
        self._control: deque[multipart.Parts] = deque(maxlen=64)
        self.dealer = context.socket(zmq.DEALER)
        self.dealer.setsockopt(zmq.LINGER, 0)
        self.dealer.setsockopt(zmq.IPV6, 1)
        self.dealer.setsockopt(zmq.IMMEDIATE, 1)
        self.dealer.setsockopt(zmq.SNDHWM, SEND_HIGH_WATER)
        self.dealer.setsockopt(zmq.RECONNECT_IVL, -1)
        self.dealer.setsockopt(zmq.CONNECT_TIMEOUT, ATTEMPT_WITHIN_US // 1000)
        self.dealer.setsockopt(zmq.HANDSHAKE_IVL, ATTEMPT_WITHIN_US // 1000)
        self.dealer.setsockopt(zmq.MAXMSGSIZE, LARGEST_REPLY_BYTES)
        self.monitor = self.dealer.get_monitor_socket(_ENDED | zmq.Event.HANDSHAKE_SUCCEEDED)
        try:
            self.dealer.connect(f"tcp://{address}")
        except zmq.ZMQError as error:  # a name that is no name; tried again like any other failure
            self.broke(str(error))

    def __repr__(self) -> str:
        return f"<Connection {self.number} {self.lane.value} {self.state.value}>"

    def enter(self, state: State, now_us: int) -> None:
        self.state = state
        self.since_us = now_us

    def broke(self, reason: str) -> None:
        self.state = State.BROKEN
        self.reason = self.reason or reason

    def overdue(self, now_us: int) -> bool:
        """Whether the attempt has taken too long."""
        waiting = self.state in (State.CONNECTING, State.GREETING)
        return waiting and now_us - self.since_us >= ATTEMPT_WITHIN_US

    def happened(self) -> list[bool]:
        """What the monitor says since the last look: True = handshake done, False = the connection ended."""
        news = []
        while self.monitor.poll(0):
            event: Any = recv_monitor_message(self.monitor, zmq.NOBLOCK)
            news.append(event["event"] == zmq.Event.HANDSHAKE_SUCCEEDED)
        return news

    def receive(self) -> list[bytes] | None:
        """The parts of the next message, None when none waits."""
        try:
            return self.dealer.recv_multipart(zmq.NOBLOCK)
        except zmq.Again:
            return None

    def control(self, message: ToWorker) -> None:
        """Send a small message, as soon as there is room: the oldest waiting one gives way."""
        self._control.append(multipart.pack_to_worker(message))
        self.flush()

    def flush(self) -> None:
        while self._control and self._send(self._control[0]):
            self._control.popleft()

    @property
    def waits_to_send(self) -> bool:
        return bool(self._control)

    def send(self, message: ToWorker) -> bool:
        """Hand a message to the network now; False when the queue below is full."""
        self.flush()
        return not self._control and self._send(multipart.pack_to_worker(message))

    def _send(self, parts: multipart.Parts) -> bool:
        size = sum(len(part) for part in parts)
        try:
            self.dealer.send_multipart(parts, zmq.NOBLOCK, copy=size < ZERO_COPY_BYTES)
        except zmq.Again:
            return False
        except zmq.ZMQError as error:
            self.broke(str(error))
            return False
        self.bytes_sent += size
        return True

    def close(self, *, linger_ms: int = 0) -> None:
        self.dealer.disable_monitor()
        self.monitor.close(0)
        self.dealer.close(linger_ms)
