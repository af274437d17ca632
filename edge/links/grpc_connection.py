"""One gRPC connection to a worker: one channel, one TCP connection, one bidirectional stream.

Like the ZeroMQ one it connects once and is thrown away when it breaks; the channel is its own, so nothing
is shared, and its name is resolved anew. gRPC's thread takes what is queued here one message at a time, as fast as
the network takes it; a thread of ours reads and reports. Nothing here blocks its caller.
"""

import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, Protocol

from edge.links.head_start import HeadStart
from edge.links.lane import ATTEMPT_WITHIN_US
from protos.bell import Bell
from protos.wire import envelope
from protos.wire.live import Buffer, FrameBody, FrameHead, Result
from protos.wire.messages import ToWorker
from protos.wire.session import Lane, Welcome

log = logging.getLogger(__name__)

MOST_QUEUED = 16  # messages: eight frames of head and body
MOST_CONTROL = 64  # small messages of the link's own that may wait behind them
LARGEST_REPLY_BYTES = 8 << 20
_MOST_WORDS = 200

_CHANNEL = (
    ("grpc.use_local_subchannel_pool", 1),  # else two channels to one worker share one TCP connection (F32)
    ("grpc.enable_http_proxy", 0),  # proxies are for the outside world
    ("grpc.enable_retries", 0),
    ("grpc.service_config_disable_resolution", 1),
    ("grpc.min_reconnect_backoff_ms", ATTEMPT_WITHIN_US // 1000),  # also how long a connect may take
    ("grpc.max_receive_message_length", LARGEST_REPLY_BYTES + envelope.OVERHEAD_BYTES),
    ("grpc.http2.bdp_probe", 0),  # replies are small: no ping of gRPC's own for their bandwidth
    ("grpc.max_send_message_length", -1),  # judged against what the worker says it takes
)


def load_grpc() -> ModuleType:
    """gRPC, with its own log off unless whoever started the process asked for it: what goes wrong is told by the
    link. It reads the environment once, when it loads, so whoever needs it gets it here."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    import grpc  # noqa: PLC0415 - see above

    return grpc


class Listener(Protocol):
    """Who hears of a connection, on its reading thread: bytes as they come, then the end, once."""

    def came(self, connection: "GrpcConnection", data: Buffer) -> None: ...

    def ended(self, connection: "GrpcConnection", reason: str) -> None: ...


class Outgoing(Iterator[bytes]):
    """Messages on their way to gRPC's sending thread: packed there, one copy, when it asks for the next.

    That thread, the only one that takes, waits behind a bell.
    """

    def __init__(self) -> None:
        self.bytes_sent = 0
        self.head_start = HeadStart()
        self._queue: deque[ToWorker] = deque()
        self._lock = threading.Lock()
        self._bell = Bell()
        self._ended = False

    def put(self, messages: tuple[ToWorker, ...], *, most: int) -> bool:
        """Queue all or none; False when more than `most` would wait, or the stream has ended."""
        with self._lock:
            if self._ended or len(self._queue) + len(messages) > most:
                return False
            self._queue.extend(messages)
            self._bell.ring()
        return True

    def end(self, *, at_once: bool) -> list[ToWorker]:
        """Half-close after what is queued, or without it; what will never be sent is returned."""
        with self._lock:
            self._ended = True
            left = list(self._queue) if at_once else []
            if at_once:
                self._queue.clear()
            self._bell.ring()
        return left

    def __next__(self) -> bytes:
        while True:
            with self._lock:
                if self._queue:
                    message = self._queue.popleft()
                    body = self._body_to_go_along(message)
                    break
                if self._ended:
                    raise StopIteration
                self._bell.expect()
            self._bell.wait()
        if body is not None and isinstance(message, FrameHead):
            data = envelope.pack_frame(message, body)
        else:
            data = envelope.pack_to_worker(message)
        self.bytes_sent += len(data)
        return data

    def _body_to_go_along(self, message: ToWorker) -> FrameBody | None:
        """The body of this head, taken off the queue, if both shall travel in one message."""
        body = self._queue[0] if self._queue else None
        if not isinstance(message, FrameHead) or not isinstance(body, FrameBody) or self.head_start.apart():
            return None
        self._queue.popleft()
        return body


class GrpcConnection:
    """`number` rises with every connection of a link; `dropped` is told what was queued when it closed. `address` gives
    where to connect, or raises OSError, in its own time: it is asked on the connection's thread. `authority` is the
    worker's name, as HTTP/2 has it said."""

    def __init__(
        self,
        *,
        grpc: ModuleType,
        number: int,
        lane: Lane,
        authority: str,
        address: Callable[[], str],
        listener: Listener,
        dropped: Callable[[ToWorker], None],
    ) -> None:
        self.number = number
        self.lane = lane
        self._listener = listener
        self._dropped = dropped
        self._outgoing = Outgoing()
        self._grpc = grpc
        self._authority = authority
        self._address = address
        self._lock = threading.Lock()
        self._closed = False
        self._channel: Any = None
        self._call: Any = None
        self._reader = threading.Thread(target=self._read, name=f"grpc-read-{number}", daemon=True)
        self._reader.start()

    def __repr__(self) -> str:
        return f"<GrpcConnection {self.number} {self.lane.value}>"

    @property
    def bytes_sent(self) -> int:
        return self._outgoing.bytes_sent

    def send(self, messages: tuple[ToWorker, ...]) -> bool:
        """Queue for sending; False when the queue is full: the network takes no more."""
        return self._outgoing.put(messages, most=MOST_QUEUED)

    def welcomed(self, welcome: Welcome) -> None:
        self._outgoing.head_start.welcomed(takes_frames=welcome.takes_frames)

    def answered(self, result: Result) -> None:
        """What a result tells about the way up."""
        self._outgoing.head_start.seen(result.timing.body_mono_us - result.timing.head_mono_us)

    def control(self, message: ToWorker) -> None:
        self._outgoing.put((message,), most=MOST_QUEUED + MOST_CONTROL)

    def finish(self) -> None:
        """No more is sent after what is queued."""
        self._outgoing.end(at_once=False)

    def wait(self, timeout_s: float) -> bool:
        """Whether the worker has ended its side too, in this time."""
        self._reader.join(timeout_s)
        return not self._reader.is_alive()

    def close(self) -> None:
        for message in self._outgoing.end(at_once=True):
            self._dropped(message)
        with self._lock:
            self._closed = True
        if self._call is not None:
            self._call.cancel()
            self._channel.close()

    def _connect(self) -> Iterator[bytes]:
        """What will come from the worker; nothing if it was closed meanwhile."""
        address = self._address()
        with self._lock:
            if self._closed:
                return iter(())
            self._channel = self._grpc.insecure_channel(
                address, options=(*_CHANNEL, ("grpc.default_authority", self._authority))
            )
            # Without serializers what crosses is bytes; the stubs know no such call.
            method: Any = self._channel.stream_stream(envelope.METHODS[self.lane], None, None)
            call: Iterator[bytes] = method(self._outgoing)
            self._call = call
            return call

    def _read(self) -> None:
        reason = "the worker closed the connection"
        try:
            for data in self._connect():
                self._listener.came(self, data)
        except self._grpc.RpcError as error:
            reason = _words(error)
        except OSError as error:  # a name that leads nowhere
            reason = str(error)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            log.exception("connection %d cannot be read any more", self.number)
        finally:  # a lane that never heard of its end would wait for ever
            self._listener.ended(self, reason)


def _words(error: Any) -> str:
    """`unavailable: failed to connect …`: what a stream raises is the call itself, with its code and words; of a page of
    them, which some servers send, the beginning."""
    said = str(error.details()).partition("\n")[0]
    words = f"{error.code().name.lower().replace('_', ' ')}: {said[:_MOST_WORDS]}"
    # A server of another kind answers so; also one of ours that is too old to have this lane.
    return f"what answers there is no nearfar worker ({words})" if words.startswith("unimpl") else words
