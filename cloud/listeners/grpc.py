"""The gRPC listener: one bidirectional stream per agent lane, a session of the service for each; `Infer` and health.

It only moves messages: a stream's reading thread hands each to its session, gRPC's own thread sends what the
session's peer has queued. What cannot be read is answered with an error and the stream kept; a peer that takes
no more within `max_queued` messages is told so by `send` returning False; one that is gone, or silent for
`silent_us`, ends its session. `grpc.health.v1` says SERVING exactly while the service is ready.
"""

import contextlib
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from cloud.listeners.base import STOP_WITHIN_S, ServedEndpoint
from cloud.listeners.grpc_health import MOST_CHECKS, HealthCalls
from cloud.listeners.grpc_infer import MOST_CALLS
from cloud.listeners.grpc_methods import SimpleMethods
from cloud.listeners.grpc_peer import GrpcPeer
from cloud.listeners.hearing import hear
from cloud.simple import SimpleClients
from cloud.threads import dead, left_after
from pipelines.errors import ConfigError
from protos.endpoint import Session
from protos.wire import envelope
from protos.wire.session import Lane

os.environ.setdefault(
    "GRPC_VERBOSITY", "NONE"
)  # read when grpc loads: what goes wrong is told in our own words
import grpc

log = logging.getLogger(__name__)

_SPARE_THREADS = 16  # for health checks, and for saying no to one peer too many
_LOOK_EVERY_S = 0.1
_HANDSHAKE_MS = 5000
_IDLE_CONNECTION_MS = 60_000
_STREAMS_PER_CONNECTION = 16
_GRACE_S = 0.5  # for replies under way


class GrpcListener:
    """`address` is `host:port`, port 0 for any; after `start` it is the bound `grpc://host:port`. `simple` None: there is
    no `Infer`. `reflection`: clients may list what there is; ConfigError where its extra is missing."""

    def __init__(
        self,
        endpoint: ServedEndpoint,
        *,
        address: str,
        clock_us: Callable[[], int],
        max_message_bytes: int = 8 << 20,
        max_queued: int = 256,
        max_peers: int = 1024,
        silent_us: int = 15_000_000,
        simple: SimpleClients | None = None,
        reflection: bool = False,
    ) -> None:
        self._endpoint = endpoint
        self._wanted = address
        self._bound = ""
        self._clock_us = clock_us
        self._max_message_bytes = max_message_bytes
        self._max_queued = max_queued
        self._max_peers = max_peers
        self._silent_us = silent_us
        self._lock = threading.Lock()
        self._peers: set[GrpcPeer] = set()
        self._refused = 0
        self.faults = 0
        self.left_behind: list[str] = []
        self._leaving: list[GrpcPeer] = []
        self._stopped: threading.Event | None = None
        self._stopping = threading.Event()
        self._health = HealthCalls(endpoint.not_ready, clock_us=clock_us, silent_us=silent_us)
        self._server: Any = None
        self._methods = SimpleMethods(
            simple, reflection=reflection, clock_us=clock_us, refused=self._refuse, silent_us=silent_us
        )
        threads = max_peers + _SPARE_THREADS + MOST_CALLS + MOST_CHECKS
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="nearfar-grpc-send")
        self._watch = threading.Thread(target=self._look, name="nearfar-grpc-listener", daemon=True)

    @property
    def address(self) -> str:
        return self._bound

    @property
    def refused_messages(self) -> int:
        """Messages that could not be read, calls of methods we do not have, streams beyond `max_peers`."""
        return self._refused

    def start(self) -> None:
        """Bind and serve. ConfigError, in words, when the address cannot be bound."""
        server = grpc.server(
            self._pool,
            handlers=[
                _Calls({path: self._handler(lane) for lane, path in envelope.METHODS.items()}),
                _Calls(self._health.handlers()),
                _Calls(self._methods.handlers),
                _Unknown(self._refuse),
            ],
            options=(
                ("grpc.so_reuseport", 0),  # else two workers on one port would share its agents in silence
                ("grpc.max_receive_message_length", self._max_message_bytes + envelope.OVERHEAD_BYTES),
                ("grpc.max_send_message_length", -1),
                ("grpc.max_concurrent_streams", _STREAMS_PER_CONNECTION),
                ("grpc.max_allowed_incoming_connections", self._max_peers + _SPARE_THREADS),
                ("grpc.server_handshake_timeout_ms", _HANDSHAKE_MS),
                ("grpc.max_connection_idle_ms", _IDLE_CONNECTION_MS),
            ),
        )
        host, _, wanted = self._wanted.rpartition(":")
        try:
            port = server.add_insecure_port(self._wanted)
        except RuntimeError as error:
            self._pool.shutdown()
            raise ConfigError(f"listen.grpc.address {self._wanted}: {_why(host, int(wanted))}") from error
        self._server = server
        self._bound = f"grpc://{host}:{port}"
        server.start()
        self._watch.start()

    @property
    def trouble(self) -> list[str]:
        return [] if self._stopping.is_set() else dead([self._watch])

    def halt(self) -> None:
        self._stopping.set()
        if self._server is None:
            return
        server, self._server = self._server, None
        self._health.stop()
        self._stopped = server.stop(_GRACE_S)  # no new call from here on
        self._leaving = self._current()
        for peer in self._leaving:
            peer.close()

    def stop(self, within_s: float = STOP_WITHIN_S) -> None:
        """Hand over what is queued, end every session and thread. Safe to call twice."""
        until_s = time.monotonic() + within_s
        self.halt()
        if self._stopped is None:
            return
        self._stopped.wait(within_s)
        self._pool.shutdown(wait=False)
        threads = [self._watch, *(peer.reader for peer in self._leaving if peer.reader is not None)]
        self.left_behind = left_after(threads, until_s - time.monotonic())

    # -- one stream -------------------------------------------------------------------------------------------

    def _handler(self, lane: Lane) -> Any:
        def live(requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
            return self._serve(lane, requests, context)

        return grpc.stream_stream_rpc_method_handler(live)

    def _serve(self, lane: Lane, requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        """The replies of one stream, which gRPC takes on a thread of its pool; another reads."""
        peer = GrpcPeer(max_queued=self._max_queued, cancel=context.cancel)
        with self._lock:
            full = len(self._peers) >= self._max_peers
            if not full:
                self._peers.add(peer)
        if full:
            self._refuse()
            words = f"this worker serves {self._max_peers} streams and has no place for one more"
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, words)
        peer.heard_us = self._clock_us()
        if not context.add_callback(peer.end):
            peer.end()
        peer.read_with(lambda: self._read(lane, peer, requests))
        return peer

    def _read(self, lane: Lane, peer: GrpcPeer, requests: Iterator[bytes]) -> None:
        session: Session | None = None
        try:
            session = self._endpoint.open(peer)
            # What ends a stream (lost, cancelled, a message over the limit) is no news to anybody but its session.
            with contextlib.suppress(grpc.RpcError):
                for data in requests:
                    peer.heard_us = self._clock_us()
                    hear(
                        data,
                        lane=lane,
                        peer=peer,
                        session=session,
                        arrived_us=peer.heard_us,
                        refused=self._refuse,
                    )
        except Exception:
            self.faults += 1
            log.exception("a stream could not be read any further, and ends")
            peer.cancel()
        finally:
            if session is not None:
                session.closed()
            with self._lock:
                self._peers.discard(peer)
            peer.close()

    # -- all streams ------------------------------------------------------------------------------------------

    def _refuse(self) -> None:
        with self._lock:
            self._refused += 1

    def _current(self) -> list[GrpcPeer]:
        with self._lock:
            return list(self._peers)

    def _look(self) -> None:
        """End silent streams and say whether this worker is ready, a few times a second."""
        every_s = min(_LOOK_EVERY_S, self._silent_us / 4e6)
        while not self._stopping.wait(every_s):
            try:
                self._look_once()
            except Exception:
                self.faults += 1
                log.exception("a look at the streams failed, and is repeated")

    def _look_once(self) -> None:
        self._health.look()
        now_us = self._clock_us()
        self._methods.look(now_us)
        for peer in self._current():
            if now_us - peer.heard_us > self._silent_us:
                peer.cancel()


class _Calls(grpc.GenericRpcHandler):
    """Methods by path."""

    def __init__(self, handlers: dict[str, Any]) -> None:
        self._handlers = handlers

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        return self._handlers.get(str(handler_call_details.method))


class _Unknown(grpc.GenericRpcHandler):
    """Asked last: nobody has this method. gRPC answers so; we count."""

    def __init__(self, count: Callable[[], None]) -> None:
        self._count = count

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> None:
        log.debug("no such method: %s", handler_call_details.method)
        self._count()


def _why(host: str, port: int) -> str:
    """The system's own words about an address gRPC could not bind."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host.strip("[]"), port))
            probe.listen(1)
    except OSError as error:
        return error.strerror or str(error)
    return "gRPC could not bind it"
