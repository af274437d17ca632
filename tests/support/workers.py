"""Workers for tests: a Service in this process, and `nearfar cloud` as a process of its own."""

import json
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from cloud.keeping.storeroom import Storeroom
from cloud.limits import ServiceLimits
from cloud.models.spec import ModelSpec
from cloud.scheduling.batch_rule import BatchRule
from cloud.service import Service
from cloud.store.kinds import PayloadsConfig, StoreConfig
from cloud.store.records import RecordStore, open_store
from pipelines.codecs.base import Codec, PictureLimits
from pipelines.detectors.base import CancelToken, Detector
from pipelines.errors import Rejected
from pipelines.frame import Encoding, Picture
from pipelines.result import Detections
from pipelines.runtime import monotonic_us
from pipelines.units import size

MODEL = "synthetic"


clock_us = monotonic_us


def unix_us() -> int:
    return time.time_ns() // 1000


class RawCodec:
    """Any bytes become a black picture of the size stated; `b"damaged"` does not."""

    name = "raw"

    def encode(
        self, picture: Picture, *, quality: int, size: tuple[int, int] | None = None
    ) -> tuple[bytes, Encoding]:
        height_px, width_px = picture.shape[:2]
        data = b"x" * 10
        return data, Encoding(
            codec="raw", quality=quality, width_px=width_px, height_px=height_px, body_bytes=len(data)
        )

    def decode(self, data: bytes | memoryview, encoding: Encoding, limits: PictureLimits) -> Picture:
        if bytes(data[:7]) == b"damaged":
            raise Rejected("the picture is damaged")
        return np.zeros((encoding.height_px, encoding.width_px, 3), np.uint8)


class GatedDetector:
    """One box over the whole picture per run. While `gate` is cleared a run waits in it; `fail` makes runs raise."""

    name = "gated@32x24"
    labels = ("thing",)
    input_size = (32, 24)
    sha256 = "ab" * 32

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.fail: Exception | None = None
        self.running = threading.Event()
        self.runs = 0
        self.boxes = 1

    def detect(self, picture: Picture, cancel: CancelToken | None = None) -> Detections:
        self.runs += 1
        self.running.set()
        self.gate.wait(10.0)
        self.running.clear()
        if self.fail is not None:
            raise self.fail
        height_px, width_px = picture.shape[:2]
        return Detections(
            np.tile(np.array([[0, 0, width_px, height_px]], np.float32), (self.boxes, 1)),
            np.full(self.boxes, 0.9, np.float32),
            np.zeros(self.boxes, np.uint16),
            self.labels,
        )


@contextmanager
def service(
    folder: Path,
    *,
    build: Callable[[], Detector] | None = None,
    codecs: Mapping[str, Codec] | None = None,
    limits: ServiceLimits | None = None,
    clock: Callable[[], int] = clock_us,
    timer: bool = True,
    warm_up: int = 0,
    sha256: str | None = None,
    models: Sequence[str] = (MODEL,),
    default_model: str = MODEL,
    url: str = "",
    payload_bytes: int = 0,
    batch: BatchRule | None = None,
    instances: int = 1,
    decode_threads: int = 1,
    commit_every_us: int = 0,
) -> Iterator[tuple[Service, RecordStore]]:
    """A started Service over a record store at `url` (default: in `folder`), stopped at the end. `payload_bytes`: the
    quota of the payloads it keeps in `folder`, 0 = it keeps none."""
    codecs = codecs or {"raw": RawCodec()}
    limits = limits or ServiceLimits()
    with open_store(url or f"sqlite:///{folder}/records.db") as store:
        wanted = PayloadsConfig(
            path=folder / "payloads", max_bytes=size(f"{payload_bytes or 1}B"), keep="none"
        )
        storeroom = Storeroom(
            StoreConfig(url=f"sqlite:///{folder}/records.db", payloads=wanted if payload_bytes else None),
            store,
            limits=limits,
            codecs=codecs,
            clock_us=clock,
            unix_us=unix_us,
        )
        made = Service(
            models=[
                ModelSpec(
                    name=name,
                    build=build or GatedDetector,
                    warm_up=warm_up,
                    sha256=sha256,
                    batch=batch or BatchRule(),
                    instances=instances,
                )
                for name in models
            ],
            default_model=default_model,
            codecs=codecs,
            store=store,
            store_id=store.store_id,
            clock_us=clock,
            unix_us=unix_us,
            limits=limits,
            commit_every_us=commit_every_us,
            decode_threads=decode_threads,
            uploads=storeroom.uploads,
        )
        made.start(timer=timer)
        if storeroom.writer is not None:
            storeroom.writer.start()
        try:
            yield made, store
        finally:
            made.stop()
            storeroom.stop(2.0)


WORKER_YAML = """\
version: 1
name: test-worker
state_dir: {state_dir}
listen:
  zmq: {{address: "127.0.0.1:0"}}
  http: {{address: "127.0.0.1:0"}}
models:
  synthetic:
    detector: {{kind: synthetic, delay: {delay}, boxes: 2}}
"""


class WorkerProcess:
    """`nearfar cloud` on a synthetic detector, ready when the constructor returns."""

    def __init__(self, folder: Path, *, delay: str = "10ms", sets: tuple[str, ...] = ()) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "worker.yaml"
        path.write_text(WORKER_YAML.format(state_dir=folder, delay=delay))
        command = [sys.executable, "-m", "nearfar", "cloud", str(path)]
        for item in sets:
            command += ["--set", item]
        self.log = (folder / "worker.log").open("ab")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log)
        try:
            self.ready: dict[str, Any] = self._read_ready(30.0)
        except BaseException:
            self.kill()
            raise

    def _read_ready(self, within_s: float) -> dict[str, Any]:
        assert self.process.stdout is not None
        readable, _, _ = select.select([self.process.stdout], [], [], within_s)
        line = self.process.stdout.readline() if readable else b""
        if not line:
            raise AssertionError(f"no ready line; the log says:\n{Path(self.log.name).read_text()}")
        return dict(json.loads(line))

    @property
    def url(self) -> str:
        """As a pipeline's link names it."""
        return str(self.ready["zmq"]).replace("tcp://", "zmq://")

    def terminate(self, within_s: float = 15.0) -> int:
        """SIGTERM, then the exit code."""
        self.process.terminate()
        try:
            return self.process.wait(within_s)
        finally:
            self.kill()

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        self.log.close()
