"""A calibration of painted pictures: a far model that is right, and figures made up for tests of what follows them."""

from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np

from nearfar.calibrate.figures import Calibration, NearFigures, RungFigures
from nearfar.calibrate.rows import FarSight, Row, Sight
from pipelines.codecs.kinds import RungConfig

DIM = 158  # score (158 / 255)² = 0.38, of 0.35 needed
CELL_PX = 8
WIDTH_PX, HEIGHT_PX = 256, 128


def rung(quality: int = 50, scale: float = 1.0) -> RungConfig:
    return RungConfig(codec="jpeg", quality=quality, scale=scale)


def rung_figures(
    accuracy: float, size_bytes: int, *, of: RungConfig | None = None, ci95: float = 0.01
) -> RungFigures:
    return RungFigures(
        rung=of or rung(quality=max(1, round(accuracy * 100)), scale=0.5),
        accuracy=accuracy,
        ci95=ci95,
        bytes_mean=size_bytes,
        bytes_p95=size_bytes + 100,
        encode_p50_us=2_000,
        encode_p95_us=3_000,
        run_p50_us=20_000,
        run_p95_us=25_000,
    )


def near_figures(accuracy: float, name: str = "yolox@224x224") -> NearFigures:
    return NearFigures(name=name, accuracy=accuracy, ci95=0.02, run_p50_us=7_000, run_p95_us=9_000)


def calibration(
    rungs: Sequence[RungFigures],
    *,
    near: NearFigures | None,
    smaller: Sequence[NearFigures] = (),
    boxes: int = 500,
    clips: Sequence[str] = ("hall.mp4",),
) -> Calibration:
    return Calibration(
        clips=tuple(clips),
        frames=100,
        boxes=boxes,
        far="people-512 (yolox@512x512)",
        near=near,
        smaller=tuple(smaller),
        rungs=tuple(rungs),
    )


def row(
    reference: int, *, near: tuple[int, int], far: Sequence[tuple[int, int]], size_bytes: int = 9_000
) -> Row:
    """(true, false) of near and of each rung."""
    return Row(
        reference=reference,
        near=Sight(true=near[0], false=near[1], run_us=7_000),
        confidence=0.5,
        rungs=tuple(
            FarSight(true=true, false=false, run_us=20_000, size_bytes=size_bytes, encode_us=2_000)
            for true, false in far
        ),
    )


def write_clip(path: Path, *, frames: int = 12, seen: bool = True) -> Path:
    """A clip without loss. On black, elsewhere in every picture, blue blocks of one cell of 8 px: bright ones, and dim ones
    that are only just seen; and a large one that stays, which a small input sees too. `seen` False: none of them."""
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"FFV1"), 10, (WIDTH_PX, HEIGHT_PX))
    assert writer.isOpened()
    for number in range(frames):
        picture = np.zeros((HEIGHT_PX, WIDTH_PX, 3), np.uint8)
        for block in range(6 if seen else 0):
            x, y = (5 * number + 7 * block) % 20 * CELL_PX, (3 * number + 5 * block) % 16 * CELL_PX
            picture[y : y + CELL_PX, x : x + CELL_PX, 0] = DIM if block % 2 else 255
        picture[64:96, 192:224, 0] = 255 if seen else 0
        writer.write(picture)
    writer.release()
    return path
