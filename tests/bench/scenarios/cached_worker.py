"""The real worker, service, listener and store, whose model answers from the cache after the time it really takes.

    python -m tests.bench.scenarios.cached_worker --cache FILE --link zmq --address 0.0.0.0:7440 --state DIR

`--service-ms` scales what was measured to that median. SIGUSR1 makes it three times as slow, SIGUSR2 as quick as
before. At its end `counts.json` in DIR says how many payloads it knew; one it does not know is rejected, so that it
shows.
"""

import argparse
import json
import signal
import threading
import time
from pathlib import Path

import numpy as np

from cloud.listeners.base import Listener
from cloud.listeners.kinds import LISTENERS
from cloud.models.spec import ModelSpec
from cloud.service import Service
from cloud.store.records import open_store
from nearfar import process
from pipelines import runtime
from pipelines.codecs.base import PictureLimits
from pipelines.detectors.base import CancelToken
from pipelines.errors import Rejected
from pipelines.frame import Encoding, Picture
from pipelines.result import Detections
from pipelines.runtime import monotonic_us
from tests.bench.scenarios.clip_cache import FAR_INPUT, PERSON_LABELS, ClipCache, Seen, digest_of
from tests.bench.scenarios.recipe import FAR_MODEL

SLOWER = 3.0
MESSAGE_BYTES = 8 << 20
DRAIN_US = 5_000_000
INDEX_SHAPE = (1, 4, 3)
"""Of the stand-in for a picture: its first bytes are the number of a payload."""


class CachedCodec:
    """Recognises payloads; what it "decodes" to is the number of the payload."""

    name = "jpeg"

    def __init__(self, cache: ClipCache) -> None:
        self.seen = list(cache.by_digest.values())
        self._number = {digest: i for i, digest in enumerate(cache.by_digest)}
        self.known = 0
        self.unknown = 0

    def encode(
        self, picture: Picture, *, quality: int, size: tuple[int, int] | None = None
    ) -> tuple[bytes, Encoding]:
        raise Rejected("a worker does not encode")

    def decode(self, data: bytes | memoryview, encoding: Encoding, limits: PictureLimits) -> Picture:
        number = self._number.get(digest_of(data))
        if number is None:
            self.unknown += 1
            raise Rejected(
                f"{encoding.width_px}x{encoding.height_px} at quality {encoding.quality} is not in the cache"
            )
        self.known += 1
        picture = np.zeros(INDEX_SHAPE, np.uint8)
        picture.reshape(-1)[:4] = np.frombuffer(number.to_bytes(4, "little"), np.uint8)
        return picture


class CachedDetector:
    """Answers after the time the model took on this payload; `slower` times as long."""

    name = "cached"
    labels = PERSON_LABELS
    input_size = FAR_INPUT
    sha256 = "ca" * 32

    def __init__(self, seen: list[Seen], *, typical_us: int, service_us: float) -> None:
        self._seen = seen
        self._service_us = service_us
        self._most_us = 2 * typical_us  # more was the machine's doing
        self._factor = service_us / typical_us
        self.slower = 1.0

    def detect(self, picture: Picture, cancel: CancelToken | None = None) -> Detections:
        if picture.shape != INDEX_SHAPE:  # warming up
            time.sleep(self._service_us / 1e6)
            return Detections.empty(self.labels)
        seen = self._seen[int.from_bytes(picture.tobytes()[:4], "little")]
        time.sleep(self.slower * self._factor * min(seen.run_us, self._most_us) / 1e6)
        return Detections(seen.boxes, seen.scores, np.zeros(len(seen.scores), np.uint16), self.labels)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--link", default="zmq", choices=("zmq", "grpc"))
    parser.add_argument("--address", required=True)
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--service-ms", type=float)
    arguments = parser.parse_args()
    process.set_up_logging()
    stop = process.stop_on_signals()
    runtime.tune()
    cache = ClipCache.read(arguments.cache)
    codec = CachedCodec(cache)
    typical_us = cache.typical_us
    service_us = typical_us if arguments.service_ms is None else 1000 * arguments.service_ms
    detector = CachedDetector(codec.seen, typical_us=typical_us, service_us=service_us)
    signal.signal(signal.SIGUSR1, lambda *_: setattr(detector, "slower", SLOWER))
    signal.signal(signal.SIGUSR2, lambda *_: setattr(detector, "slower", 1.0))
    arguments.state.mkdir(parents=True, exist_ok=True)
    with open_store(f"sqlite:///{arguments.state}/records.db") as store:
        service = Service(
            models=[ModelSpec(name=FAR_MODEL, build=lambda: detector)],
            default_model=FAR_MODEL,
            codecs={codec.name: codec},
            store=store,
            store_id=store.store_id,
            clock_us=monotonic_us,
            unix_us=lambda: time.time_ns() // 1000,
        )
        service.start()
        (kind,) = (kind for kind in LISTENERS if kind.name == arguments.link)
        listener: Listener = kind.resolve()(
            service, address=arguments.address, clock_us=monotonic_us, max_message_bytes=MESSAGE_BYTES
        )
        listener.start()
        process.ready(address=listener.address)
        _wait(stop)
        service.drain(DRAIN_US)
        service.stop()
        listener.stop()
    counts = {"known": codec.known, "unknown": codec.unknown}
    (arguments.state / "counts.json").write_text(json.dumps(counts))


def _wait(stop: threading.Event) -> None:
    """With a turn now and then, so that the handlers of signals run."""
    while not stop.wait(0.1):
        pass


if __name__ == "__main__":
    main()
