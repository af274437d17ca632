"""The ROUTER of a ZeroMQ listener, with the bounds it keeps by itself: sizes, queues, and peers that say nothing."""

import zmq

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
