"""What only the gRPC listener can promise: health for whoever asks, and words for every end."""

import queue
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2  # type: ignore[import-untyped]

from cloud.listeners.grpc.listener import GrpcListener
from edge.links.base import Connected
from protos.wire import envelope
from protos.wire.session import Error, Hello, Lane, Ping, RejectReason, Welcome
from tests.support.agents import HELLO, GrpcSpeaker, frame, port_of
from tests.support.http2_tap import ACK, INITIAL_WINDOW_SIZE, PING, tapped
from tests.support.wires import GrpcWorker, Wire, grpc_worker

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


@pytest.fixture
def worker() -> Iterator[GrpcWorker]:
    with grpc_worker() as made:
        yield made


def test_a_lane_that_its_hello_contradicts_is_refused_in_words(worker: GrpcWorker) -> None:
    endpoint, listener = worker
    with closing(GrpcSpeaker(listener.address, Lane.BULK)) as gateway:
        gateway.send(HELLO)
        error = gateway.receive()
        assert isinstance(error, Error)
        assert (error.reason, error.retry) == (RejectReason.NOT_ALLOWED, False)
        assert "must agree" in error.text
        assert endpoint.on(Lane.BULK) == endpoint.on(Lane.LIVE) == []
        gateway.send(Hello(agent="gw", run=bytes(16), lane=Lane.BULK))
        assert isinstance(gateway.receive(), Welcome)


def test_a_message_over_the_limit_ends_its_stream_with_words_and_leaves_the_others(
    worker: GrpcWorker,
) -> None:
    _, listener = worker
    with closing(GrpcSpeaker(listener.address)) as other, closing(GrpcSpeaker(listener.address)) as gateway:
        for one in (other, gateway):
            one.send(HELLO)
            assert isinstance(one.receive(), Welcome)
        for message in frame(1, b"x" * 200_000):
            gateway.send(message)
        with pytest.raises(AssertionError, match="the stream ended"):
            gateway.receive()
        assert gateway.error is not None
        assert "larger than" in str(gateway.error)
        other.send(Ping(nonce=1, sent_mono_us=0))
        other.receive()


def test_frames_are_followed_by_no_probe_of_grpcs_own_and_a_large_one_crosses_in_one_go(
    worker: GrpcWorker,
) -> None:
    """A probe after each agent's frames would wake both ends once more; the window it would find is given at once."""
    _, listener = worker
    with tapped(port_of(listener.address)) as tap, closing(GrpcSpeaker(tap.address)) as gateway:
        gateway.send(HELLO)
        assert isinstance(gateway.receive(), Welcome)
        for seq in range(1, 5):
            for message in frame(seq, b"x" * 40_000):
                gateway.send(message)
            gateway.send(Ping(nonce=seq, sent_mono_us=0))
            gateway.receive()
        assert tap.settings()[INITIAL_WINDOW_SIZE] >= 4 << 20
        assert [flags for kind, flags, _ in tap.frames() if kind == PING and not flags & ACK] == []


def test_a_method_nobody_has_is_answered_and_counted(worker: GrpcWorker) -> None:
    _, listener = worker
    with channel_to(listener) as channel:
        wrong: Any = channel.unary_unary("/nearfar.v1.Inference/Nothing", None, None)
        with pytest.raises(grpc.RpcError) as caught:
            wrong(b"", timeout=5)
    code: Any = caught.value
    assert code.code() is grpc.StatusCode.UNIMPLEMENTED
    assert listener.refused_messages == 1


def channel_to(listener: GrpcListener) -> grpc.Channel:
    return grpc.insecure_channel(
        listener.address.removeprefix("grpc://"), options=(("grpc.enable_http_proxy", 0),)
    )


def health_of(channel: grpc.Channel, service: str = "") -> int:
    """As any health client asks, by method name and message alone."""
    check: Any = channel.unary_unary(
        "/grpc.health.v1.Health/Check",
        health_pb2.HealthCheckRequest.SerializeToString,
        health_pb2.HealthCheckResponse.FromString,
    )
    return int(check(health_pb2.HealthCheckRequest(service=service), timeout=5).status)


def test_health_is_serving_exactly_while_the_worker_is_ready(worker: GrpcWorker) -> None:
    endpoint, listener = worker
    with channel_to(listener) as channel:
        assert health_of(channel) == health_of(channel, envelope.SERVICE) == SERVING
        endpoint.reasons = ["draining"]
        assert health_of(channel) == health_of(channel, envelope.SERVICE) == NOT_SERVING
        endpoint.reasons = []
        assert health_of(channel) == SERVING
        with pytest.raises(grpc.RpcError) as caught:
            health_of(channel, "no.such.Service")
        code: Any = caught.value
        assert code.code() is grpc.StatusCode.NOT_FOUND


def test_who_watches_health_hears_of_each_change_once(worker: GrpcWorker) -> None:
    endpoint, listener = worker
    with channel_to(listener) as channel:
        watch: Any = channel.unary_stream(
            "/grpc.health.v1.Health/Watch",
            health_pb2.HealthCheckRequest.SerializeToString,
            health_pb2.HealthCheckResponse.FromString,
        )
        seen = watch(health_pb2.HealthCheckRequest(service=""), timeout=20)
        assert next(seen).status == SERVING
        endpoint.reasons = ["model x is not loaded"]
        assert next(seen).status == NOT_SERVING
        endpoint.reasons = []
        assert next(seen).status == SERVING
        seen.cancel()


def test_more_watchers_than_there_are_places_are_refused_and_agents_still_served(worker: GrpcWorker) -> None:
    _, listener = worker
    with channel_to(listener) as channel:
        watch: Any = channel.unary_stream(
            "/grpc.health.v1.Health/Watch",
            health_pb2.HealthCheckRequest.SerializeToString,
            health_pb2.HealthCheckResponse.FromString,
        )
        watchers = [watch(health_pb2.HealthCheckRequest(service=""), timeout=20) for _ in range(12)]
        refused = 0
        for one in watchers:
            try:
                next(one)
            except grpc.RpcError as error:
                refused += "ask Check instead" in str(error)
        assert refused == 4
        assert health_of(channel) == SERVING
        with closing(Wire("grpc", port_of(listener.address))) as wire:
            wire.wait(Connected, 2)
        for one in watchers:
            one.cancel()


def test_calls_that_never_ask_are_ended_and_neither_agents_nor_probes_miss_them(worker: GrpcWorker) -> None:
    """A stranger opens calls of one request by the hundred, and sends none."""
    _, listener = worker
    never: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    with ExitStack() as stack:
        calls = []
        for _ in range(8):
            options = (("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1))
            target = listener.address.removeprefix("grpc://")
            channel = stack.enter_context(grpc.insecure_channel(target, options=options))
            check: Any = channel.stream_unary("/grpc.health.v1.Health/Check", None, None)
            calls += [check.future(iter(never.get, None), timeout=60) for _ in range(14)]
        with channel_to(listener) as channel:
            assert health_of(channel) == SERVING
        with closing(GrpcSpeaker(listener.address)) as gateway:
            gateway.send(HELLO)
            assert isinstance(gateway.receive(), Welcome)
        errors: list[Any] = [call.exception(30) for call in calls]
        for _ in calls:
            never.put(None)  # lets the client's own threads go
        assert {error.code() for error in errors} == {grpc.StatusCode.CANCELLED}
