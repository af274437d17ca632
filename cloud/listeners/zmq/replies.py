"""What goes out on the ROUTER of a ZeroMQ listener: now, on the thread of whoever says it, or behind what waits.

While frames come one after the other without a pause, those that the reading thread runs itself are answered a few
together: each message sent by itself wakes libzmq's thread here and two threads at the agent. None is held for longer than `HELD_US`
and one quick frame, and none while there is nothing more to read. `lock` is the socket's; whoever reads takes it too.
"""

import logging
import threading
from collections.abc import Callable
from typing import Any

import zmq
from zmq.backend import Socket as BareSocket

from cloud.listeners.zmq.peer import ZmqPeer
from cloud.listeners.zmq.router import has_message
from protos.wire.multipart import Parts

log = logging.getLogger(__name__)

HELD_US = 200
MOST_HELD = 4

# Plain numbers: for each message, pyzmq's enumerations take as long as the message.
_NOW = int(zmq.NOBLOCK)
_MORE = int(zmq.SNDMORE | zmq.NOBLOCK)
# What `zmq.Socket.send` adds is for kinds of sockets that are not ours, and costs as much again.
_send: Any = BareSocket.send


class ZmqReplies:
    """`max_queued` messages may wait for a peer. `awake`: somebody reads, and will ask the socket for the next message
    before it sleeps; set under `lock`."""

    def __init__(self, router: "zmq.Socket[bytes]", *, max_queued: int, clock_us: Callable[[], int]) -> None:
        self.lock = threading.Lock()
        self.awake = False
        self._router = router
        self._max_queued = max_queued
        self._clock_us = clock_us
        self._attention: list[ZmqPeer] = []
        self._congested: list[ZmqPeer] = []
        self._holder = 0  # the thread whose replies are held
        self._held: list[ZmqPeer] = []
        self._held_us = 0

    @property
    def congested(self) -> bool:
        """Whether a peer takes no more for now: it is to be tried again."""
        return bool(self._congested)

    def send(self, peer: ZmqPeer, parts: Parts) -> tuple[bool, bool]:
        """`(whether the peer takes it, whether the reader has to be woken to look)`."""
        with self.lock:
            if peer.gone or self._router.closed or len(peer.queue) >= self._max_queued:
                return False, False
            peer.queue.append(parts)
            if self._holder == threading.get_ident():
                self._hold(peer)
                return True, False
            if len(peer.queue) > 1:  # held or held up: it goes out with the rest
                return True, False
            # Sending may have used up the descriptor's word that something came in: then the reader looks.
            return True, not self._send_queued(peer) or (not self.awake and has_message(self._router))

    def hold(self) -> None:
        """What the calling thread, the one that reads, says from now on is held until `due` or `let_go`."""
        self._holder = threading.get_ident()

    def let_go(self) -> bool:
        """Nothing is held any more; whether anything was."""
        self._holder = 0
        if not self._held:
            return False
        with self.lock:
            held, self._held = self._held, []
            for peer in held:
                self._send_queued(peer)
        return True

    @property
    def due(self) -> bool:
        """Whether what is held has to go out before another frame is run."""
        held = self._held
        return bool(held) and (len(held) >= MOST_HELD or self._clock_us() - self._held_us >= HELD_US)

    def look_at(self, peer: ZmqPeer) -> None:
        """`peer` is to be closed once its queue is empty. Not to be called with `lock` held."""
        with self.lock:
            self._attention.append(peer)

    def flush(self) -> list[ZmqPeer]:
        """Send what was held up; the peers that are gone, or to be closed, and are so now."""
        if not self._congested and not self._attention:
            return []
        with self.lock:
            waiting, self._congested = self._congested, []
            for peer in waiting:
                self._send_queued(peer)
            lost = [p for p in self._attention if p.lost or (p.closing and not p.queue)]
            self._attention = [p for p in self._attention if p not in lost]
        return lost

    def forget(self, peer: ZmqPeer) -> bool:
        """Send it nothing more; False if it was forgotten before."""
        with self.lock:  # whoever sends to it right now looks at its queue
            if peer.gone:
                return False
            peer.gone = True
            peer.queue.clear()
        return True

    def close(self, linger_ms: int) -> None:
        """What libzmq has accepted still goes out; a dead peer may hold it up so long and no longer."""
        with self.lock:
            self._router.close(linger_ms)

    def _hold(self, peer: ZmqPeer) -> None:
        if not self._held:
            self._held_us = self._clock_us()
        self._held.append(peer)

    def _send_queued(self, peer: ZmqPeer) -> bool:
        """Under the socket's lock. False if the listener has to look at it again."""
        while peer.queue and not peer.lost:
            try:
                kind, header = peer.queue[0]
                _send(self._router, peer.routing_id, _MORE)
                _send(self._router, kind, _MORE)
                _send(self._router, header, _NOW)
            except zmq.Again:
                if peer not in self._congested:
                    self._congested.append(peer)
                return False
            except zmq.ZMQError as error:
                if error.errno != zmq.EHOSTUNREACH:
                    log.warning("sending to an agent failed: %s", error)
                peer.lost = True
                self._attention.append(peer)
                return False
            peer.queue.popleft()
        return not peer.closing
