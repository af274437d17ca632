"""Decode and detect in a loop, and nothing else: what a model server can reach at most.

`python -m tests.bench.bare_loop MODEL PICTURE SIDE THREADS` reads seconds from its standard input, a number a line, and
answers each with the frames a second of that time and their number. Every thread has a session of its own with one thread of its own.
"""

import sys
import threading
import time
from pathlib import Path

from pipelines.codecs.base import PictureLimits
from pipelines.codecs.jpeg import JpegCodec, read_header
from pipelines.detectors.base import Detector
from pipelines.detectors.kinds import DETECTORS
from pipelines.frame import Encoding
from pipelines.pictures import for_detector
from pipelines.runtime import tune

LIMITS = PictureLimits(pixels=12_000_000, decoded_bytes=64 << 20)


def detector(model: str, side_px: int) -> Detector:
    """As a worker's file describes it; one thread a run."""
    config = DETECTORS["yolox"].config.model_validate(
        {"kind": "yolox", "model": model, "input": f"{side_px}x{side_px}", "threads": 1}
    )
    made: Detector = DETECTORS.build(config)
    return made


def encoding_of(body: bytes) -> Encoding:
    header = read_header(body)
    return Encoding(
        codec="jpeg", quality=80, width_px=header.width_px, height_px=header.height_px, body_bytes=len(body)
    )


class Loop:
    def __init__(self, made: Detector, body: bytes) -> None:
        self._detector = made
        self._body = body
        self._encoding = encoding_of(body)
        self._codec = JpegCodec()
        self.runs = 0

    def once(self) -> None:
        self._detector.detect(for_detector(self._codec.decode(self._body, self._encoding, LIMITS)))
        self.runs += 1

    def until(self, until_s: float) -> None:
        while time.perf_counter() < until_s:
            self.once()


def rate(loops: list[Loop], seconds: float) -> tuple[float, int]:
    """`(frames a second, frames)` of all of them together."""
    before = sum(loop.runs for loop in loops)
    begun_s = time.perf_counter()
    threads = [threading.Thread(target=loop.until, args=(begun_s + seconds,)) for loop in loops]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    runs = sum(loop.runs for loop in loops) - before
    return runs / (time.perf_counter() - begun_s), runs


def main() -> None:
    tune()
    model, picture, side_px, threads = sys.argv[1:]
    body = Path(picture).read_bytes()
    loops = [Loop(detector(model, int(side_px)), body) for _ in range(int(threads))]
    for loop in loops:
        loop.once()
    print("ready", flush=True)
    for line in sys.stdin:
        print(*rate(loops, float(line)), flush=True)


if __name__ == "__main__":
    main()
