"""The pictures and boxes of ../shared/data/val128, read where they are."""

from functools import cache
from pathlib import Path

import cv2
import numpy as np

from pipelines.frame import Picture
from tests.support.coco_map import Truth

SHARED = Path(__file__).parents[3] / "shared"


@cache
def pictures() -> tuple[Picture, ...]:
    return tuple(_read(path) for path in _paths())


@cache
def truths() -> tuple[Truth, ...]:
    return tuple(_truth(path, picture) for path, picture in zip(_paths(), pictures(), strict=True))


def _paths() -> list[Path]:
    return sorted((SHARED / "data/val128/images").iterdir())


def _read(path: Path) -> Picture:
    picture = cv2.imread(str(path))
    assert picture is not None, path
    return picture.astype(np.uint8, copy=False)


def _truth(path: Path, picture: Picture) -> Truth:
    """A label line is: class, centre x and y, width, height, in shares of the picture."""
    file = path.parents[1] / "labels" / f"{path.stem}.txt"
    rows = np.array([line.split() for line in file.read_text().splitlines()] if file.exists() else [], float)
    rows = rows.reshape(-1, 5)
    height, width = picture.shape[:2]
    centre, half = rows[:, 1:3] * [width, height], rows[:, 3:] * [width, height] / 2
    return Truth(np.hstack([centre - half, centre + half]), rows[:, 0].astype(np.int64))
