"""A whole worker whose codec and detector cost nothing: `python -m tests.bench.null_worker zmq|grpc`.

Service, record store and listener are those of `nearfar cloud`; only the work is left out. It prints its
address, serves until stdin closes, and then prints its counters.
"""

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from cloud.limits import ServiceLimits
from cloud.listeners.kinds import LISTENERS
from cloud.models.spec import ModelSpec
from cloud.service import Service
from cloud.store.records import open_store
from pipelines.codecs.base import PictureLimits
from pipelines.detectors.base import CancelToken
from pipelines.errors import Rejected
from pipelines.frame import Encoding, Picture
from pipelines.result import Detections
from pipelines.runtime import monotonic_us, tune

CODEC = "null"
MODEL = "null"
LARGEST_BODY_BYTES = 8 << 20


class NullCodec:
    """Looks at the last byte of a body and returns the same black picture every time."""

    name = CODEC

    def __init__(self) -> None:
        self._picture = np.zeros((48, 64, 3), np.uint8)

    def encode(
        self, picture: Picture, *, quality: int, size: tuple[int, int] | None = None
    ) -> tuple[bytes, Encoding]:
        data = picture.tobytes()
        height_px, width_px = picture.shape[:2]
        return data, Encoding(
            codec=CODEC, quality=quality, width_px=width_px, height_px=height_px, body_bytes=len(data)
        )

    def decode(self, data: bytes | memoryview, encoding: Encoding, limits: PictureLimits) -> Picture:
        if len(data) != encoding.body_bytes or data[-1] is None:
            raise Rejected("the body is not as long as its head said")
        return self._picture


BOXES = Detections(
    np.array([[1, 2, 30, 40], [5, 6, 7, 8]], np.float32),
    np.array([0.9, 0.8], np.float32),
    np.zeros(2, np.uint16),
    ("thing",),
)


class NullDetector:
    """The same two boxes at once."""

    name = "null@64x48"
    labels = BOXES.labels
    input_size = (64, 48)
    sha256 = "00" * 32

    def detect(self, picture: Picture, cancel: CancelToken | None = None) -> Detections:
        return BOXES


@contextmanager
def serving(kind: str, folder: Path, *, address: str = "127.0.0.1:0") -> Iterator[tuple[str, Service]]:
    """A null worker on loopback: `(host:port, service)`."""
    with open_store(f"sqlite:///{folder}/records.db") as store:
        service = Service(
            models=[ModelSpec(name=MODEL, build=NullDetector)],
            default_model=MODEL,
            codecs={CODEC: NullCodec()},
            store=store,
            store_id=store.store_id,
            clock_us=monotonic_us,
            unix_us=lambda: time.time_ns() // 1000,
            limits=ServiceLimits(bytes_in_flight=16 << 20),
        )
        service.start()
        listener: Any = LISTENERS[kind].resolve()(
            service, address=address, clock_us=monotonic_us, max_message_bytes=LARGEST_BODY_BYTES
        )
        try:
            listener.start()
            yield listener.address.rpartition("//")[2], service
        finally:
            service.drain(2_000_000)
            service.stop()
            listener.stop()


if __name__ == "__main__":
    tune()
    with tempfile.TemporaryDirectory() as root, serving(sys.argv[1], Path(root)) as (address, running):
        print(address, flush=True)
        sys.stdin.read()
        answered = running.metrics.value("nearfar_worker_frames_total", outcome="answered")
    print(int(answered), flush=True)
