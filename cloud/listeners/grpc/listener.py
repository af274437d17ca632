"""The gRPC listener: one bidirectional stream per agent lane, a session of the service for each; `Infer` and health.

It only moves messages, and lends its threads: the one that reads a stream hands each message to its session, runs the
frame where nothing is before it while another reads on, and sends what was said meanwhile. What cannot be read is
answered with an error and the stream kept; a peer that takes no more within `max_queued` messages is told so by `send`
returning False; one that is gone, or silent for `silent_us`, ends its session. `grpc.health.v1` says SERVING exactly while the service is ready.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import grpc

from cloud.listeners.addresses import bind_fault, not_bound
from cloud.listeners.base import STOP_WITHIN_S, ServedEndpoint
from cloud.listeners.crew import Crew
from cloud.listeners.grpc.calls import Calls, Unknown
from cloud.listeners.grpc.health import MOST_CHECKS, HealthCalls
from cloud.listeners.grpc.hearing import hear
from cloud.listeners.grpc.infer import MOST_CALLS
from cloud.listeners.grpc.methods import SimpleMethods
from cloud.listeners.grpc.peer import GrpcPeer, Transmit
from cloud.simple_clients import SimpleClients
from cloud.threads import dead, left_after
from protos.endpoint import Session
from protos.wire import envelope
from protos.wire.session import Lane

log = logging.getLogger(__name__)

_SPARE_THREADS = 16  # for health checks, and for saying no to one peer too many
_LOOK_EVERY_S = 0.1
_HANDSHAKE_MS = 5000
_IDLE_CONNECTION_MS = 60_000
_STREAMS_PER_CONNECTION = 16  # of agents; calls and streams together may be
_CALLS_PER_CONNECTION = 1024  # as their clients are told: what they call beyond waits with them
_READ_AHEAD_BYTES = 4 << 20  # of a stream: a frame crosses in one go, also where the round trip is long
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
        self._crew = Crew("nearfar-grpc-read")
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
                Calls({path: self._handler(lane) for lane, path in envelope.METHODS.items()}),
                Calls(self._health.handlers()),
                Calls(self._methods.handlers),
                Unknown(self._refuse),
            ],
            options=(
                ("grpc.so_reuseport", 0),  # else two workers on one port would share its agents in silence
                ("grpc.max_receive_message_length", self._max_message_bytes + envelope.OVERHEAD_BYTES),
                ("grpc.max_send_message_length", -1),
                ("grpc.max_concurrent_streams", _CALLS_PER_CONNECTION),
                # else gRPC also counts calls that have ended, and resets new ones with no reason and no count
                ("grpc.http.overload_protection", 0),
                ("grpc.max_allowed_incoming_connections", self._max_peers + _SPARE_THREADS),
                ("grpc.server_handshake_timeout_ms", _HANDSHAKE_MS),
                ("grpc.max_connection_idle_ms", _IDLE_CONNECTION_MS),
                # gRPC's own probe for the bandwidth would ping every agent after its frames; instead the window that
                # it finds out by that is given from the start.
                ("grpc.http2.bdp_probe", 0),
                ("grpc.http2.lookahead_bytes", _READ_AHEAD_BYTES),
            ),
        )
        host, _, wanted = self._wanted.rpartition(":")
        try:
            fault = bind_fault(host, int(wanted))  # gRPC says it to the terminal, and not to us
            if fault is not None:
                raise fault
            port = server.add_insecure_port(self._wanted)
        except (OSError, RuntimeError) as error:
            self._pool.shutdown()
            why = error if isinstance(error, OSError) else OSError("gRPC could not bind it")
            raise not_bound("listen.grpc.address", self._wanted, why) from error
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
        for peer in self._current():
            peer.close()

    def stop(self, within_s: float = STOP_WITHIN_S) -> None:
        """Hand over what is queued, end every session and thread. Safe to call twice."""
        until_s = time.monotonic() + within_s
        self.halt()
        if self._stopped is None:
            return
        self._stopped.wait(within_s)
        self._pool.shutdown(wait=False)
        self._crew.dismiss()
        threads = [self._watch, *self._crew.threads]
        self.left_behind = left_after(threads, until_s - time.monotonic())

    # -- one stream -------------------------------------------------------------------------------------------

    def _handler(self, lane: Lane) -> Any:
        def live(requests: Iterator[bytes], context: grpc.ServicerContext, transmit: Transmit) -> None:
            self._serve(lane, requests, context, transmit)

        # gRPC then gives us the call that sends, and any thread may use it; its own health service lives by this.
        live.experimental_non_blocking = True  # type: ignore[attr-defined]
        return grpc.stream_stream_rpc_method_handler(live)

    def _serve(
        self, lane: Lane, requests: Iterator[bytes], context: grpc.ServicerContext, transmit: Transmit
    ) -> None:
        """One stream, on a thread of gRPC's pool, which sends; others read."""
        peer = GrpcPeer(
            max_queued=self._max_queued, transmit=transmit, cancel=context.cancel, connection=context.peer()
        )
        with self._lock:
            no_place = self._no_place(peer.connection)
            if not no_place:
                self._peers.add(peer)
        if no_place:
            self._refuse()
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, no_place)
        peer.heard_us = self._clock_us()
        if not context.add_callback(peer.end):
            peer.end()
        if not self._crew.put_on(partial(self._begin, lane, peer, requests)):
            with self._lock:
                self._peers.discard(peer)
            context.abort(
                grpc.StatusCode.RESOURCE_EXHAUSTED, "this worker has no thread left to read a stream"
            )
        peer.pump()

    def _no_place(self, connection: str) -> str:
        """Under the lock: why one more stream is not served, in words; empty when it is."""
        if len(self._peers) >= self._max_peers:
            return f"this worker serves {self._max_peers} streams and has no place for one more"
        if sum(peer.connection == connection for peer in self._peers) >= _STREAMS_PER_CONNECTION:
            return f"one connection has {_STREAMS_PER_CONNECTION} streams at most; open another one"
        return ""

    def _begin(self, lane: Lane, peer: GrpcPeer, requests: Iterator[bytes]) -> None:
        try:
            session = self._endpoint.open(peer)
        except Exception as error:  # noqa: BLE001 - told where it is handled
            self._fail(peer, error)
            self._end(peer, None)
        else:
            self._read(lane, peer, session, requests)

    def _read(self, lane: Lane, peer: GrpcPeer, session: Session, requests: Iterator[bytes]) -> None:
        """Until the stream ends, or until another thread reads on because this one has a frame to run."""
        handed_on = False
        try:
            # What ends a stream (lost, cancelled, a message over the limit) is no news to anybody but its session.
            with contextlib.suppress(grpc.RpcError):
                for data in requests:
                    peer.heard_us = self._clock_us()
                    peer.serving()
                    try:
                        run = hear(
                            data,
                            lane=lane,
                            peer=peer,
                            session=session,
                            arrived_us=peer.heard_us,
                            refused=self._refuse,
                            may_run=True,
                        )
                        if run is not None:
                            read_on = partial(self._read, lane, peer, session, requests)
                            handed_on = self._crew.run(run, read_on)
                    finally:
                        peer.flush()
                    if handed_on:
                        break
        except Exception as error:  # noqa: BLE001 - told where it is handled
            self._fail(peer, error)
        finally:
            if not handed_on:
                self._end(peer, session)

    def _fail(self, peer: GrpcPeer, error: Exception) -> None:
        self.faults += 1
        log.error("a stream could not be read any further, and ends", exc_info=error)
        peer.cancel()

    def _end(self, peer: GrpcPeer, session: Session | None) -> None:
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
