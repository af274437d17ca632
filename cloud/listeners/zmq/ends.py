"""Which TCP connections of a ROUTER have ended, and whose they were: libzmq itself tells no socket's owner.

The socket's monitor tells of descriptors, a peer's first message of the one it came on; of two that came on the same the
later is there still, if any is. libzmq tells of an end before it hands over what came last, so a peer is `over` a moment after it. A
peer that speaks ZMTP 2 names no descriptor: it ends by its silence. For the reading thread alone.
"""

import struct

import zmq

from cloud.listeners.zmq.peer import ZmqPeer

LAST_WORDS_US = 20_000
_AT_MOST_US = 1_000_000  # for what came last to be read while others keep coming
_ADDRESS = "inproc://nearfar-ends"  # of the listener's own context
_EVENT = struct.Struct("=HI")  # what happened, and to which descriptor
_ACCEPTED = int(zmq.Event.ACCEPTED)
_DISCONNECTED = int(zmq.Event.DISCONNECTED)
_SRCFD = int(zmq.SRCFD)
_NAMES = 1 << 32  # libzmq counts them in so many, from anywhere


class ZmqEnds:
    """To be made before the router is bound. `descriptor` becomes readable once there is news for `look`."""

    def __init__(self, context: "zmq.Context[zmq.Socket[bytes]]", router: "zmq.Socket[bytes]") -> None:
        self._news = context.socket(zmq.PAIR)
        self._news.set(zmq.LINGER, 0)
        self._news.set(zmq.RCVHWM, 0)  # else libzmq's own thread would wait for whoever reads this
        self._router = router
        router.monitor(_ADDRESS, _ACCEPTED | _DISCONNECTED)
        self._news.connect(_ADDRESS)
        self.descriptor = self._news.fileno()
        self._open: set[int] = set()
        self._peers: dict[int, ZmqPeer] = {}  # by descriptor
        self._ended: dict[ZmqPeer, int] = {}  # since when, of the listener's clock

    @property
    def waiting(self) -> bool:
        """Whether a peer has ended and is not forgotten yet."""
        return bool(self._ended)

    def look(self, now_us: int) -> None:
        """Hear what happened. A descriptor that told of news tells no more until this was called."""
        while self._news.poll(0):
            event, descriptor = _EVENT.unpack(self._news.recv_multipart(zmq.NOBLOCK)[0])
            if event == _ACCEPTED:
                self._open.add(descriptor)
                continue
            self._open.discard(descriptor)
            self._end(descriptor, now_us)

    def has_ended(self, peer: ZmqPeer) -> bool:
        return peer in self._ended

    def came(self, peer: ZmqPeer, frame: zmq.Frame, now_us: int) -> None:
        """`frame` is of the first message of this peer."""
        try:
            descriptor = int(frame.get(_SRCFD))
        except zmq.ZMQError:
            return
        self.look(now_us)
        there = self._peers.get(descriptor)
        if descriptor in self._open and not (there is not None and _is_later(there, peer)):
            self._end(descriptor, now_us)
            self._peers[descriptor] = peer
            peer.descriptor = descriptor
        else:
            self._ended[peer] = now_us

    def over(self, now_us: int, *, dry: bool) -> list[ZmqPeer]:
        """Peers to be forgotten now; `dry`: no message waits to be read."""
        within_us = LAST_WORDS_US if dry else _AT_MOST_US
        return [peer for peer, since_us in self._ended.items() if now_us - since_us >= within_us]

    def forget(self, peer: ZmqPeer) -> None:
        """It is none of the listener's peers any more."""
        self._ended.pop(peer, None)
        if self._peers.get(peer.descriptor) is peer:
            del self._peers[peer.descriptor]

    def close(self) -> None:
        """Under the router's lock, and before it is closed: its own thread would wait for ever for somebody to hear of the
        last ends."""
        self._router.disable_monitor()
        self._news.close(0)

    def _end(self, descriptor: int, now_us: int) -> None:
        peer = self._peers.pop(descriptor, None)
        if peer is not None:
            self._ended[peer] = now_us


def _is_later(one: ZmqPeer, other: ZmqPeer) -> bool:
    """Whether it connected after the other, by the names that libzmq gave them; one that chose its own cannot be told."""
    names = (one.routing_id, other.routing_id)
    if any(name[0] for name in names):
        return False
    ours, theirs = (int.from_bytes(name[1:]) for name in names)
    return (ours - theirs) % _NAMES < _NAMES // 2
