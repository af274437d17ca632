"""A service behind a gRPC listener as a client sees it that is no agent: one call, one result or words."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from cloud.limits import ServiceLimits
from cloud.listeners.grpc.listener import GrpcListener
from cloud.service import Service
from cloud.simple_clients import SimpleClients
from cloud.store.records import RecordStore
from pipelines.codecs.jpeg import JpegCodec
from pipelines.codecs.png import PngCodec
from pipelines.codecs.zstd import ZstdCodec
from protos import inference_pb2 as pb
from protos.wire import envelope
from tests.support.workers import GatedDetector, RawCodec, clock_us, service

CODECS = {codec.name: codec for codec in (RawCodec(), JpegCodec(), PngCodec(), ZstdCodec())}


class Worker:
    """A service behind a gRPC listener, and a channel of a simple client to it."""

    def __init__(
        self, made: Service, store: RecordStore, detector: GatedDetector, listener: GrpcListener
    ) -> None:
        self.service, self.store, self.detector, self.listener = made, store, detector, listener
        self.channel = grpc.insecure_channel(
            listener.address.removeprefix("grpc://"), options=(("grpc.enable_http_proxy", 0),)
        )
        self.call: Any = self.channel.unary_unary(
            envelope.INFER, pb.InferRequest.SerializeToString, pb.InferReply.FromString
        )

    def infer(self, *, timeout: float | None = 20, **fields: Any) -> pb.InferReply:
        return self.call(pb.InferRequest(**fields), timeout=timeout)  # type: ignore[no-any-return]

    def refused(self, *, timeout: float | None = 20, **fields: Any) -> tuple[grpc.StatusCode, str, str]:
        """Status, words and reason of a call that gets no result."""
        with pytest.raises(grpc.RpcError) as caught:
            self.infer(timeout=timeout, **fields)
        return ended(caught.value)

    def outcome(self, name: str) -> float:
        return self.service.metrics.value("nearfar_worker_frames_total", outcome=name)


def ended(error: Any) -> tuple[grpc.StatusCode, str, str]:
    metadata = dict(error.trailing_metadata() or ())
    return error.code(), error.details(), metadata.get("nearfar-reason", "")


@contextmanager
def worker_in(
    folder: Path,
    *,
    limits: ServiceLimits | None = None,
    max_message_bytes: int = 1 << 20,
    commit_every_us: int = 0,
    **options: Any,
) -> Iterator[Worker]:
    detector = GatedDetector()
    made_in = service(
        folder, build=lambda: detector, codecs=CODECS, limits=limits, commit_every_us=commit_every_us
    )
    with made_in as (made, store):
        listener = GrpcListener(
            made,
            address="127.0.0.1:0",
            clock_us=clock_us,
            max_message_bytes=max_message_bytes,
            simple=SimpleClients(made, clock_us=clock_us),
            **options,
        )
        listener.start()
        worker = Worker(made, store, detector, listener)
        try:
            yield worker
        finally:
            detector.gate.set()
            worker.channel.close()
            listener.stop()
