"""The first runs of a model, on empty pictures: they warm it up, prove that it works, and say what runs cost."""

from collections.abc import Callable
from functools import partial

import numpy as np

from cloud.models.spec import ModelSpec
from pipelines.detectors.base import BatchDetector, Detector, batch_fault
from pipelines.errors import ConfigError, Fatal, NearfarError


def checked(spec: ModelSpec, *, sha256: str = "") -> Detector:
    """A new instance, of the right file and able to run its batches; `sha256`: of the instances before it, if any.

    Raises what building raises; ConfigError with words when it is not what was meant.
    """
    detector = spec.build()
    wanted = spec.sha256 or sha256
    if wanted and detector.sha256 != wanted:
        raise ConfigError(
            f"models.{spec.name}: the file has sha256 {detector.sha256}, wanted is {wanted}; "
            "put the right file in place or change models.…sha256"
        )
    if (fault := batch_fault(detector, spec.batch.max)) is not None:
        raise ConfigError(f"models.{spec.name}.batch.max: {fault}")
    return detector


def warm_up(
    detector: Detector, *, model: str, runs: int, most: int, clock_us: Callable[[], int]
) -> list[tuple[int, int]]:
    """`(frames, µs)` of the last of `runs` runs of one picture, and of each size of a batch up to `most` that doubles
    the one before; with `runs` 0 nothing is run.

    Raises Fatal when the model `model` fails on an empty picture, ConfigError when it does so on several but not on one.
    """
    width_px, height_px = detector.input_size
    picture = np.zeros((height_px, width_px, 3), np.uint8)
    seen: list[tuple[int, int]] = []
    took_us: int | None = None
    for _ in range(runs):
        started_us = clock_us()
        try:
            detector.detect(picture)
        except Fatal as error:
            raise Fatal(f"model {model} fails on an empty picture: {error}") from error
        took_us = clock_us() - started_us
    if took_us is not None:
        seen.append((1, took_us))
    if runs and isinstance(detector, BatchDetector):
        for size in sizes(most)[1:]:
            for _ in range(2):  # the first run of a size also finds its memory
                started_us = clock_us()
                try:
                    detector.detect_batch([picture] * size)
                except Fatal as error:
                    words = f"the model fails on {size} empty pictures at once: {error}"
                    if not _runs(partial(detector.detect, picture)):  # not the batch: its engine has ended
                        raise Fatal(f"models.{model}: {words}") from error
                    if any(_runs(partial(detector.detect_batch, [picture] * size)) for _ in range(2)):
                        words += "; the next time it did not: it fails now and then, whatever batch says"
                        raise Fatal(f"models.{model}: {words}") from error
                    raise ConfigError(
                        f"models.{model}.batch.max is {most}, but {words}; leave batch out"
                    ) from error
                took_us = clock_us() - started_us
            seen.append((size, took_us or 0))
    return seen


def _runs(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except NearfarError:
        return False
    return True


def sizes(most: int) -> list[int]:
    """1, 2, 4 … and `most`."""
    out = [1]
    while 2 * out[-1] < most:
        out.append(2 * out[-1])
    return out if most == 1 else [*out, most]
