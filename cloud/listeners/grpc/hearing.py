"""What one message of a gRPC stream means, whoever's server brought it: unpacked, judged, handed to its session.

Nothing that arrives ends the stream here: what cannot be read or served is answered with words. It returns a frame that
nothing is before to a caller who would run it (`may_run`); never to one whose thread serves an event loop.
"""

import logging
from collections.abc import Callable

from pipelines.errors import NearfarError, Rejected
from protos.endpoint import Peer, Run, Session
from protos.wire import envelope
from protos.wire.messages import ToWorker
from protos.wire.session import Error, Hello, Lane, RejectReason

log = logging.getLogger(__name__)


def hear(
    data: bytes,
    *,
    lane: Lane,
    peer: Peer,
    session: Session,
    arrived_us: int,
    refused: Callable[[], None],
    may_run: bool = False,
) -> Run | None:
    """One message of a stream of `lane`, arrived at `arrived_us` of the worker's clock; `refused` counts those that
    cannot be read."""
    run: Run | None = None
    try:
        messages = envelope.unpack_to_worker(data, agent=session.agent)
    except Rejected as error:
        refused()
        session.refuse(str(error))
        return None
    for message in messages:
        if isinstance(message, Hello) and message.lane is not lane:
            refused()
            words = f"this is a call of the {lane} lane and its Hello says {message.lane}; they must agree"
            peer.send(Error(reason=RejectReason.NOT_ALLOWED, text=words, retry=False))
        else:
            last = message is messages[-1]  # the body, where a head is before it
            run = _serve(session, message, arrived_us, may_run=may_run and last)
    return run


def _serve(session: Session, message: ToWorker, arrived_us: int, *, may_run: bool) -> Run | None:
    try:
        if may_run:
            return session.receive_or_run(message, arrived_us)
        session.receive(message, arrived_us)
    except NearfarError as error:
        session.refuse(str(error))
    except Exception:
        log.exception("a message of agent %r could not be served", session.agent)
        session.refuse("this message could not be served; the worker's log says why")
    return None
