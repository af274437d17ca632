"""The ZeroMQ listener: one ROUTER read by one thread at a time, a session of the service per routing id.

It only moves messages, and lends its threads: the one that read a frame runs it where nothing is before it, another
reads on. Ids it does not know get a session (which asks for a Hello), what cannot be read is answered with an error and
the connection kept. Whoever answers sends on its own thread, under the socket's lock: waking the listener for it would
cost more than the send. A peer that cannot take more within `max_queued` messages is told so by `send` returning False;
one whose connection ends, or that is silent for `silent_us`, ends its session.
"""

import contextlib
import logging
import os
import select
import threading
from collections.abc import Callable, Sequence

import zmq

from cloud.listeners.addresses import bind_fault, not_bound
from cloud.listeners.base import STOP_WITHIN_S
from cloud.listeners.crew import Crew
from cloud.listeners.zmq.ends import ZmqEnds
from cloud.listeners.zmq.peer import ZmqPeer
from cloud.listeners.zmq.replies import ZmqReplies
from cloud.listeners.zmq.router import has_message, new_router, take_message
from cloud.threads import dead, left_after
from pipelines.errors import NearfarError, Rejected
from protos.endpoint import Endpoint, Run
from protos.wire.live import Buffer
from protos.wire.multipart import Parts, messages_to_worker

log = logging.getLogger(__name__)

_MESSAGES_PER_TURN = 64
_SOON_POLL_MS = 5
_IDLE_POLL_MS = 1000
_LINGER_MS = 200
_AFTER_A_FAULT_S = 0.05  # what fails at every turn must not take a whole core


class ZmqListener:
    """`address` is `host:port`, port 0 for any; after `start` it is the bound `tcp://host:port`."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        address: str,
        clock_us: Callable[[], int],
        max_message_bytes: int = 8 << 20,
        max_queued: int = 256,
        max_peers: int = 1024,
        silent_us: int = 15_000_000,
    ) -> None:
        self._max_queued = max_queued
        self.refused_messages = 0
        self.faults = 0
        self.left_behind: list[str] = []
        self._endpoint = endpoint
        self._wanted = address
        self._bound = ""
        self._clock_us = clock_us
        self._max_message_bytes = max_message_bytes
        self._max_peers = max_peers
        self._silent_us = silent_us
        self._peers: dict[bytes, ZmqPeer] = {}
        self._stopping = threading.Event()
        self._wake_fd = -1
        self._checked_us = 0
        self._fd_lock = threading.Lock()
        self._poll = select.poll()
        self._more = False  # messages wait that no descriptor will tell of
        self._dense = False  # frames come one after the other, and nobody has waited since the last
        self._crew = Crew("nearfar-zmq-listener")

    @property
    def address(self) -> str:
        return self._bound

    def start(self) -> None:
        """Bind and serve. ConfigError, in words, when the address cannot be bound."""
        host, _, port = self._wanted.rpartition(":")
        self._context = zmq.Context()
        router = new_router(self._context, max_message_bytes=self._max_message_bytes)
        if host.startswith("["):
            router.set(zmq.IPV6, 1)
        self._ends = ZmqEnds(self._context, router)
        try:
            router.bind(f"tcp://{host}:{'*' if port == '0' else port}")
        except zmq.ZMQError as error:
            self._ends.close()
            router.close(0)
            self._context.term()
            # Of a name that leads nowhere libzmq says that there is no such device.
            why = bind_fault(host, int(port)) or OSError(error.errno, error.strerror)
            raise not_bound("listen.zmq.address", self._wanted, why) from error
        self._router = router
        self._replies = ZmqReplies(router, max_queued=self._max_queued, clock_us=self._clock_us)
        self._bound = router.get_string(zmq.LAST_ENDPOINT)
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poll.register(router.fileno(), select.POLLIN)
        self._poll.register(self._ends.descriptor, select.POLLIN)
        self._poll.register(self._wake_fd, select.POLLIN)
        if not self._crew.put_on(self._read):
            raise RuntimeError("the system has no thread left to listen with")

    def transmit(self, peer: ZmqPeer, parts: Parts) -> bool:
        """Send, on the caller's thread; False if the peer takes no more."""
        sent, look = self._replies.send(peer, parts)
        if look:
            self._signal()
        return sent

    def look_at(self, peer: ZmqPeer) -> None:
        """`peer` is to be closed once its queue is empty. Not to be called with the socket's lock held."""
        self._replies.look_at(peer)
        self._signal()

    @property
    def trouble(self) -> list[str]:
        return [] if self._stopping.is_set() else dead(self._crew.threads)

    def halt(self) -> None:
        self._stopping.set()
        self._signal()

    def stop(self, within_s: float = STOP_WITHIN_S) -> None:
        """Hand over what is queued, end every session and the thread. Safe to call twice."""
        self.halt()
        self.left_behind = left_after(self._crew.threads, within_s)

    def _signal(self) -> None:
        with self._fd_lock:
            if self._wake_fd >= 0:
                os.eventfd_write(self._wake_fd, 1)

    def _read(self) -> None:
        """Until the end, or until another thread reads on because this one has a frame to run."""
        handed_on = False
        try:
            while not handed_on and not self._stopping.is_set():
                run = None
                try:
                    run = self._turn()
                except Exception:
                    self.faults += 1
                    self._more = True  # no descriptor tells of what was not taken
                    log.exception("a turn of the ZeroMQ listener failed, and it goes on")
                    self._stopping.wait(_AFTER_A_FAULT_S)
                if run is not None:
                    handed_on = self._run(run)
        finally:
            if not handed_on:
                self._shut_down()

    def _run(self, run: Run) -> bool:
        """Whether another thread reads on meanwhile, and this one is to come back."""
        if self._dense and run.quick:
            self._replies.hold()
        handed_on = self._crew.run(run, self._read)
        if handed_on:
            # Which may have used up the descriptor's word that something came in, and the other reader sleeps.
            if self._replies.let_go():
                self._signal()
        else:
            self._dense = True
        return handed_on

    def _turn(self) -> Run | None:
        """Wait for something (unless more waits already), and do it; a frame that is to be run, which ends the turn."""
        surely = not self._more and self._wait()
        if self._replies.due:
            self._replies.let_go()
        for peer in self._replies.flush():  # replies go out before more work comes in
            self._forget(peer)
        run = self._receive(surely=surely)
        now_us = self._clock_us()
        if self._ends.waiting:
            for peer in self._ends.over(now_us, dry=not self._more):
                self._forget(peer)
        self._forget_silent(now_us)
        return run

    def _wait(self) -> bool:
        """Whether a message has come, and nobody woke us for something else."""
        self._dense = False
        soon = self._replies.congested or self._ends.waiting
        woken = come = False
        for fd, _ in self._poll.poll(_SOON_POLL_MS if soon else _IDLE_POLL_MS):
            if fd == self._wake_fd:
                woken = True
            elif fd == self._ends.descriptor:
                self._ends.look(self._clock_us())
            else:
                come = True
        if woken:
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self._wake_fd)
        return come and not woken

    def _receive(self, *, surely: bool) -> Run | None:
        """Take up to a turn's worth of messages. `surely`: the descriptor has just told of one.

        A body is nearly always there when its head has been served, so each is asked for before the next wait.
        """
        self._more = True
        for _ in range(_MESSAGES_PER_TURN):
            message = self._next(surely=surely)
            surely = False
            if message is None and self._replies.let_go():  # which may have used up the descriptor's word
                message = self._next(surely=False)
            if message is None:
                self._more = False
                return None
            run = self._handle(*message, self._clock_us())
            if run is not None:
                return run
            if self._replies.due:  # messages that are no frames take their time, too
                self._replies.let_go()
        return None

    def _next(self, *, surely: bool) -> tuple[bytes, list[Buffer], zmq.Frame] | None:
        with self._replies.lock:
            message = take_message(self._router) if surely or has_message(self._router) else None
            self._replies.awake = message is not None
            return message

    def _handle(
        self, routing_id: bytes, parts: Sequence[Buffer], frame: zmq.Frame, arrived_us: int
    ) -> Run | None:
        peer = self._peers.get(routing_id)
        if peer is not None and routing_id[0]:  # its own choice, so it may be that of a connection before
            self._ends.look(arrived_us)
            if self._ends.has_ended(peer):
                self._forget(peer)
                peer = None
        if peer is None:
            if len(self._peers) >= self._max_peers:
                self.refused_messages += 1
                return None
            peer = ZmqPeer(self, routing_id)
            peer.session = self._endpoint.open(peer)
            self._peers[routing_id] = peer
            self._ends.came(peer, frame, arrived_us)
        peer.heard_us = arrived_us
        session = peer.session
        assert session is not None  # noqa: S101 - set where the peer is made
        try:
            messages = messages_to_worker(parts, agent=session.agent)
        except Rejected as error:
            self.refused_messages += 1
            session.refuse(str(error))
            return None
        try:
            for message in messages[:-1]:  # a frame's head
                session.receive(message, arrived_us)
            return session.receive_or_run(messages[-1], arrived_us)
        except NearfarError as error:
            session.refuse(str(error))
        except Exception:
            log.exception("a message of agent %r could not be served", session.agent)
            session.refuse("this message could not be served; the worker's log says why")
        return None

    def _forget(self, peer: ZmqPeer) -> None:
        if not self._replies.forget(peer):
            return
        self._peers.pop(peer.routing_id, None)
        self._ends.forget(peer)
        if peer.session is not None:
            peer.session.closed()

    def _forget_silent(self, now_us: int) -> None:
        if now_us - self._checked_us < min(1_000_000, self._silent_us // 4):
            return
        self._checked_us = now_us
        self._ends.look(now_us)  # while messages come without a pause nobody waits for news
        for peer in [p for p in self._peers.values() if now_us - p.heard_us > self._silent_us]:
            self._forget(peer)

    def _shut_down(self) -> None:
        self._replies.let_go()
        self._replies.flush()
        for peer in list(self._peers.values()):
            self._forget(peer)
        with self._replies.lock:
            self._ends.close()
        self._replies.close(_LINGER_MS)
        self._context.term()
        self._crew.dismiss()
        with self._fd_lock:
            os.close(self._wake_fd)
            self._wake_fd = -1
