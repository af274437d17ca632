"""The ROUTER of a ZeroMQ listener, with the bounds it keeps by itself: sizes, queues, and peers that say nothing.

`has_message` and `take_message` are called under the socket's lock.
"""

import zmq

from protos.wire.live import Buffer

# Plain numbers: for each message, pyzmq's enumerations take as long as the message.
_NOW = int(zmq.NOBLOCK)
_EVENTS = int(zmq.EVENTS)
_POLLIN = int(zmq.POLLIN)
_SMALL_BYTES = 1024  # to copy so much costs less than a view of it
_SNDHWM = 64
_HANDSHAKE_MS = 5000
_HEARTBEAT_MS = 5000


def new_router(context: "zmq.Context[zmq.Socket[bytes]]", *, max_message_bytes: int) -> "zmq.Socket[bytes]":
    """Not bound yet. A part of a message above `max_message_bytes` costs its sender the connection."""
    router = context.socket(zmq.ROUTER)
    router.set(zmq.ROUTER_MANDATORY, 1)
    router.set(zmq.ROUTER_HANDOVER, 0)
    router.set(zmq.MAXMSGSIZE, max_message_bytes)
    router.set(zmq.SNDHWM, _SNDHWM)
    router.set(zmq.LINGER, 0)
    router.set(zmq.HANDSHAKE_IVL, _HANDSHAKE_MS)
    router.set(zmq.HEARTBEAT_IVL, _HEARTBEAT_MS)
    router.set(zmq.HEARTBEAT_TIMEOUT, 3 * _HEARTBEAT_MS)
    return router


def has_message(router: "zmq.Socket[bytes]") -> bool:
    """Asking costs less than the exception of a receive in vain."""
    return bool(int(router.getsockopt(_EVENTS)) & _POLLIN)


def take_message(router: "zmq.Socket[bytes]") -> tuple[bytes, list[Buffer], zmq.Frame] | None:
    """Who sent the next message, its parts, and the last of them as it came; None if there is none after all.

    A frame knows whether one follows; `recv_multipart` asks the socket each time. The sender is always followed.
    """
    receive = router.recv
    try:
        sender = receive(_NOW)
    except zmq.Again:
        return None
    frame = receive(_NOW, False)
    parts: list[Buffer] = []
    while frame.more:
        parts.append(frame.bytes if len(frame) < _SMALL_BYTES else frame.buffer)
        frame = receive(_NOW, False)
    parts.append(frame.bytes if len(frame) < _SMALL_BYTES else frame.buffer)
    return sender, parts, frame
