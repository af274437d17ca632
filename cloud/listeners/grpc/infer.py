"""`Infer`, for clients that are no agent: one gRPC call, one picture, one result. It only moves bytes and words.

A refusal is a status: its details are for people, its trailing metadata say the reason and the delay in the queue. The
deadline of the call bounds the budget; a call given up by its client ends. At most `MOST_CALLS` wait at a time, each
on a thread of the server's pool: agents' streams keep theirs. One that sends no picture for `silent_us` is ended.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

import grpc

from cloud.listeners.grpc.single import SingleRequests
from cloud.simple_clients import Declined, SimpleCall, SimpleClients
from pipelines.errors import Rejected
from protos.wire import envelope
from protos.wire.infer import InferReply, pack_reply, unpack_request
from protos.wire.session import RejectReason

log = logging.getLogger(__name__)

MOST_CALLS = 32
_LONGEST_US = 3_600_000_000

_STATUS: Mapping[RejectReason, grpc.StatusCode] = {
    RejectReason.TOO_LATE: grpc.StatusCode.DEADLINE_EXCEEDED,
    RejectReason.EXPIRED: grpc.StatusCode.DEADLINE_EXCEEDED,
    RejectReason.QUEUE_FULL: grpc.StatusCode.RESOURCE_EXHAUSTED,
    RejectReason.OVER_CREDIT: grpc.StatusCode.RESOURCE_EXHAUSTED,
    RejectReason.TOO_LARGE: grpc.StatusCode.INVALID_ARGUMENT,
    RejectReason.BAD_PAYLOAD: grpc.StatusCode.INVALID_ARGUMENT,
    RejectReason.UNKNOWN_KIND: grpc.StatusCode.INVALID_ARGUMENT,
    RejectReason.NO_MODEL: grpc.StatusCode.NOT_FOUND,
    RejectReason.NOT_ALLOWED: grpc.StatusCode.PERMISSION_DENIED,
    RejectReason.DRAINING: grpc.StatusCode.UNAVAILABLE,
    RejectReason.FAILED: grpc.StatusCode.INTERNAL,
}


class InferCalls:
    """`refused` is told of each call that is no request, or one too many."""

    def __init__(
        self,
        clients: SimpleClients,
        *,
        clock_us: Callable[[], int],
        refused: Callable[[], None],
        silent_us: int,
    ) -> None:
        self._clients = clients
        self._clock_us = clock_us
        self._refused = refused
        self._single = SingleRequests(most=MOST_CALLS, silent_us=silent_us, clock_us=clock_us)
        self.look = self._single.look

    def handlers(self) -> dict[str, Any]:
        """The method by its path."""
        return {envelope.INFER: grpc.stream_unary_rpc_method_handler(self._infer)}

    def _infer(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> bytes:
        answer: InferReply | Declined
        with self._single.place() as there:
            if there:
                answer = self._ask(self._single.take(requests, context, none=b""), context)
            else:
                self._refused()
                text = f"{MOST_CALLS} simple calls wait already: come back later, with fewer at once, or be an agent"
                answer = Declined(reason=RejectReason.QUEUE_FULL, text=text, retry=True)
        if isinstance(answer, Declined):
            _abort(context, answer)
        return pack_reply(answer)

    def _ask(self, data: bytes, context: grpc.ServicerContext) -> InferReply | Declined:
        arrived_us = self._clock_us()
        try:
            request = unpack_request(data)
        except Rejected as error:
            self._refused()
            return Declined(reason=RejectReason.UNKNOWN_KIND, text=str(error), retry=False)

        def on_call(call: SimpleCall) -> None:
            if not context.add_callback(call.give_up):
                call.give_up()

        remaining_s = context.time_remaining()
        return self._clients.ask(
            request,
            remaining_us=None if remaining_s is None else min(_LONGEST_US, max(0, int(remaining_s * 1e6))),
            arrived_us=arrived_us,
            on_call=on_call,
        )


def _abort(context: grpc.ServicerContext, declined: Declined) -> NoReturn:
    """End the call with these words."""
    context.set_trailing_metadata(
        (("nearfar-reason", declined.reason.value), ("nearfar-queue-us", str(declined.queue_us)))
    )
    status = _STATUS.get(declined.reason, grpc.StatusCode.UNKNOWN)
    if declined.reason is RejectReason.NO_MODEL and declined.retry:
        status = grpc.StatusCode.UNAVAILABLE  # it is there, and being loaded again
    context.abort(status, declined.text)
