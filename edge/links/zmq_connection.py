"""One ZeroMQ connection to a worker: a DEALER that connects once and is thrown away when it breaks.

Reconnecting is the link's business (a fresh socket resolves the name anew and starts with empty queues), so
the socket's own is turned off. `broken` says in words why it is of no more use. Whoever sends does so on its own
thread, under the socket's lock: waking the link's thread for it would cost more than the send.
"""

import threading
from collections import deque
from collections.abc import Sequence
from typing import Any

import zmq
from zmq.backend import Socket as BareSocket
from zmq.utils.monitor import recv_monitor_message

from edge.links.head_start import HeadStart
from edge.links.lane import ATTEMPT_WITHIN_US
from protos.wire import multipart
from protos.wire.live import Buffer, Cancel, FrameBody, FrameHead, Result
from protos.wire.messages import ToWorker
from protos.wire.session import Goodbye, Lane, Welcome

SEND_HIGH_WATER = 16  # messages: eight frames of head and body, or twice as many in one
ZERO_COPY_BYTES = 262_144  # below, copying costs less than the thread that must free the buffer later
SMALL_BYTES = 1024  # to copy so much costs less than a view of it
LARGEST_REPLY_BYTES = 8 << 20
GOODBYE_LINGER_MS = 100
# Plain numbers: for each message, pyzmq's enumerations take as long as the message.
_NOW = int(zmq.NOBLOCK)
_MORE = int(zmq.SNDMORE | zmq.NOBLOCK)
_EVENTS = int(zmq.EVENTS)
_POLLIN = int(zmq.POLLIN)

# What `zmq.Socket.send` adds is for kinds of sockets that are not ours, and costs as much again.
_send: Any = BareSocket.send

_ENDED = (
    zmq.Event.DISCONNECTED
    | zmq.Event.CLOSED
    | zmq.Event.CONNECT_RETRIED
    | zmq.Event.HANDSHAKE_FAILED_NO_DETAIL
    | zmq.Event.HANDSHAKE_FAILED_PROTOCOL
    | zmq.Event.HANDSHAKE_FAILED_AUTH
)


class ZmqConnection:
    """`number` rises with every connection of a link."""

    def __init__(self, context: "zmq.Context[zmq.Socket[bytes]]", *, number: int, lane: Lane) -> None:
        self.number = number
        self.lane = lane
        self.broken = ""
        self.bytes_sent = 0
        self._linger_ms = 0
        self._closed = False
        self._awake = False  # the link's thread reads, and will ask for the next message before it sleeps
        self._head_start = HeadStart()
        self._lock = threading.Lock()
        self._control: deque[multipart.Parts] = deque(maxlen=64)
        self.dealer = context.socket(zmq.DEALER)
        try:
            self._open()
        except zmq.ZMQError:  # no descriptor left: nobody would ever close this socket
            self.dealer.close(0)
            raise

    def _open(self) -> None:
        self.dealer.setsockopt(zmq.LINGER, 0)
        self.dealer.setsockopt(zmq.IPV6, 1)
        self.dealer.setsockopt(zmq.IMMEDIATE, 1)
        self.dealer.setsockopt(zmq.SNDHWM, SEND_HIGH_WATER)
        self.dealer.setsockopt(zmq.RECONNECT_IVL, -1)
        self.dealer.setsockopt(zmq.CONNECT_TIMEOUT, ATTEMPT_WITHIN_US // 1000)
        self.dealer.setsockopt(zmq.HANDSHAKE_IVL, ATTEMPT_WITHIN_US // 1000)
        self.dealer.setsockopt(zmq.MAXMSGSIZE, LARGEST_REPLY_BYTES)
        self.monitor = self.dealer.get_monitor_socket(_ENDED | zmq.Event.HANDSHAKE_SUCCEEDED)
        # Each becomes readable once when something happens, and stays silent until all of it was read.
        self.dealer_fd = self.dealer.fileno()
        self.monitor_fd = self.monitor.fileno()

    def reach(self, address: str) -> None:
        """Begin to connect to `address:port`, from any thread; what is wrong with it makes the connection `broken`."""
        with self._lock:
            if self._closed:
                return
            try:
                self.dealer.connect(f"tcp://{address}")
            except zmq.ZMQError as error:  # no such address; tried again like any other failure
                self.broken = str(error)

    def __repr__(self) -> str:
        return f"<ZmqConnection {self.number} {self.lane.value} {self.broken or 'sound'}>"

    def happened(self) -> list[bool]:
        """What the monitor says since the last look: True = handshake done, False = the connection ended."""
        news = []
        while self.monitor.poll(0):
            event: Any = recv_monitor_message(self.monitor, zmq.NOBLOCK)
            news.append(event["event"] == zmq.Event.HANDSHAKE_SUCCEEDED)
        return news

    def receive(self, *, surely: bool) -> list[Buffer] | None:
        """The parts of the next message, None when none waits. `surely`: the descriptor has just told of one."""
        with self._lock:
            self._awake = surely or self._has_message()
            if not self._awake:
                return None
            receive = self.dealer.recv
            try:
                frame = receive(_NOW, copy=False)
            except zmq.Again:  # the descriptor told of something else
                self._awake = False
                return None
            parts: list[Buffer] = []
            while frame.more:  # `recv_multipart` asks the socket instead, which costs more than the message
                parts.append(frame.bytes if len(frame) < SMALL_BYTES else frame.buffer)
                frame = receive(_NOW, copy=False)
            parts.append(frame.bytes if len(frame) < SMALL_BYTES else frame.buffer)
            return parts

    def control(self, message: ToWorker) -> None:
        """Send a small message, as soon as there is room: the oldest waiting one gives way."""
        if isinstance(message, Goodbye):
            self._linger_ms = GOODBYE_LINGER_MS
        with self._lock:
            self._control.append(multipart.pack_to_worker(message))
            self._flush()

    def flush(self) -> None:
        if self._control:
            with self._lock:
                self._flush()

    @property
    def waits_to_send(self) -> bool:
        return bool(self._control)

    def send(self, messages: Sequence[ToWorker]) -> tuple[bool, bool]:
        """Hand messages to the network now, in order: whether they all fit (else none of them counts), and whether
        the link's thread should look, because something came in or broke and no descriptor will tell."""
        with self._lock:
            packed = self._pack(messages)
            sent = self._send_all(messages, packed)
            if self.broken or self._control:
                return sent, True
            return sent, not self._awake and self._has_message()

    def welcomed(self, welcome: Welcome) -> None:
        self._head_start.welcomed(takes_frames=welcome.takes_frames)

    def answered(self, result: Result) -> None:
        """What a result tells about the way up."""
        self._head_start.seen(result.timing.body_mono_us - result.timing.head_mono_us)

    def _pack(self, messages: Sequence[ToWorker]) -> list[multipart.Parts]:
        """A head and its body in one message where the network is quick: to send the head ahead wakes the socket's thread,
        which then holds up the body."""
        if len(messages) == 2:
            head, body = messages
            if isinstance(head, FrameHead) and isinstance(body, FrameBody) and not self._head_start.apart():
                return [multipart.pack_frame(head, body)]
        return [multipart.pack_to_worker(message) for message in messages]

    def _send_all(self, messages: Sequence[ToWorker], packed: Sequence[multipart.Parts]) -> bool:
        self._flush()
        if self._control:
            return False
        for place, parts in enumerate(packed):
            if self._send(parts):
                continue
            head = messages[0]
            if place > 0 and isinstance(head, FrameHead):  # the body will not follow
                self._control.append(multipart.pack_to_worker(Cancel(stream=head.stream, seq=head.seq)))
            return False
        return True

    def _has_message(self) -> bool:
        """Asking costs less than the exception of a receive in vain."""
        return bool(int(self.dealer.getsockopt(_EVENTS)) & _POLLIN)

    def _flush(self) -> None:
        while self._control and self._send(self._control[0]):
            self._control.popleft()

    def _send(self, parts: multipart.Parts) -> bool:
        dealer, size, last = self.dealer, 0, parts[-1]
        try:
            for part in parts[:-1]:
                _send(dealer, part, _MORE)
                size += len(part)
            _send(dealer, last, _NOW, len(last) < ZERO_COPY_BYTES)
        except zmq.Again:
            return False
        except zmq.ZMQError as error:
            self.broken = self.broken or str(error)
            return False
        self.bytes_sent += size + len(last)
        return True

    def close(self) -> None:
        """A Goodbye still under way gets GOODBYE_LINGER_MS; the socket's own thread waits, not this one."""
        with self._lock:
            self._closed = True
            self.dealer.disable_monitor()
            self.monitor.close(0)
            self.dealer.close(self._linger_ms)
