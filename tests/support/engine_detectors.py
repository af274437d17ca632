"""Detectors for engine processes that do what the first pixel of their picture says, and engines that hold them."""

import ctypes
import gc
import hashlib
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from cloud.engine.engines import Engines
from cloud.engine.recipe import Recipe
from pipelines.codecs.base import PictureLimits
from pipelines.detectors.base import CancelToken, Detector
from pipelines.errors import Fatal, Rejected
from pipelines.frame import Encoding, Picture
from pipelines.result import Detections

WELL, SEGFAULT, LOOP, LOCKED, BREAK, REJECT, EXIT, SLOW, SENSELESS = range(9)
"""What a run does: LOOP never ends, LOCKED never ends and keeps the interpreter, SLOW takes 0.3 s."""
MEMORY_BYTES = 1 << 20
LABELS = ("thing", "other")


class Obedient:
    """As many boxes as the second pixel says, and at least one; their score tells the process they come from."""

    name = "obedient@32x24"
    labels = LABELS
    input_size = (32, 24)
    max_batch = 4
    batch_limit = "it was made for four"

    def __init__(self, sha256: str = "ab" * 32) -> None:
        self.sha256 = sha256
        self.batches: list[int] = []

    def detect(self, picture: Picture, cancel: CancelToken | None = None) -> Detections:
        match int(picture.flat[0]):
            case 1:
                ctypes.string_at(0)
            case 2:
                while True:
                    time.sleep(0.01)
            case 3:
                ctypes.PyDLL(None).pause()  # unlike CDLL it keeps the interpreter's lock
            case 4:
                raise Fatal("the engine broke, as it was told")
            case 5:
                raise Rejected("it was told to reject this")
            case 6:
                os._exit(3)
            case 7:
                time.sleep(0.3)
            case 8:
                return None  # type: ignore[return-value]
        count = max(1, int(picture.flat[1]))
        return Detections(
            np.tile(np.array([[0, 0, picture.shape[1], picture.shape[0]]], np.float32), (count, 1)),
            np.full(count, (os.getpid() % 1000 + 1) / 2000, np.float32),
            np.zeros(count, np.uint16),
            LABELS,
        )

    def detect_batch(self, pictures: Sequence[Picture]) -> list[Detections]:
        """Class 1 says that they came together."""
        found = [self.detect(picture) for picture in pictures]
        return [Detections(f.boxes, f.scores, np.ones(len(f), np.uint16), LABELS) for f in found]


def obedient(settings: dict[str, Any]) -> Detector:
    """`file`: its fingerprint follows what the file says; `die_while`: a file that makes loading crash while it is
    there, `hang_while`: one that makes it never end."""
    if settings.get("die_while") and Path(settings["die_while"]).exists():
        ctypes.string_at(0)
    while settings.get("hang_while") and Path(settings["hang_while"]).exists():
        time.sleep(0.01)
    if "file" not in settings:
        return Obedient()
    return Obedient(hashlib.sha256(Path(settings["file"]).read_bytes()).hexdigest())


class Settled(Obedient):
    """Class 1 says that nothing that was loaded is looked through for garbage any more."""

    def detect(self, picture: Picture, cancel: CancelToken | None = None) -> Detections:
        found = super().detect(picture, cancel)
        settled = np.full(len(found), gc.get_freeze_count() > 0, np.uint16)
        return Detections(found.boxes, found.scores, settled, LABELS)


def settled(settings: dict[str, Any]) -> Detector:
    del settings
    return Settled()


def talkative(settings: dict[str, Any]) -> Detector:
    """As C libraries are."""
    os.write(1, b"a word on stdout\n")
    return Obedient()


RECIPE = Recipe(model="synthetic", maker="tests.support.engine_detectors:obedient")


@contextmanager
def engines(*recipes: Recipe, processes: int = 1, **options: Any) -> Iterator[Engines]:
    """Started engines, stopped at the end."""
    made = Engines(recipes or (RECIPE,), processes=processes, **({"memory_bytes": MEMORY_BYTES} | options))
    made.start()
    try:
        yield made
    finally:
        made.stop()


def picture(does: int = WELL, boxes: int = 1) -> Picture:
    out = np.zeros((24, 32, 3), np.uint8)
    out.flat[0], out.flat[1] = does, boxes
    return out


def engine_processes(pid: int | None = None) -> list[psutil.Process]:
    """The engines below a process, this one by default."""
    below = psutil.Process(pid).children(recursive=True)
    return [child for child in below if "cloud.engine" in " ".join(cmdline(child))]


def cmdline(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return []


def is_gone(pid: int) -> bool:
    """Whether the process has ended, collected by its parent or not."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


class DoesCodec:
    """The first byte of a body is what its picture makes a detector do."""

    name = "raw"

    def encode(
        self, picture: Picture, *, quality: int, size: tuple[int, int] | None = None
    ) -> tuple[bytes, Encoding]:
        raise Rejected("only decodes")

    def decode(self, data: bytes | memoryview, encoding: Encoding, limits: PictureLimits) -> Picture:
        return picture(bytes(data[:1])[0])
