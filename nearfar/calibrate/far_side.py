"""Whoever answers for the cloud during a calibration: the worker's model run here, or a running worker over a link."""

from dataclasses import dataclass
from typing import Protocol

from pipelines.frame import Encoding, Picture
from pipelines.result import Detections


@dataclass(frozen=True, slots=True, eq=False)
class FarAnswer:
    """Boxes in pixels of the picture; `run_us`: decoding and detection."""

    detections: Detections
    run_us: int


class FarSide(Protocol):
    @property
    def name(self) -> str:
        """Model and input, for people."""
        ...

    @property
    def labels(self) -> tuple[str, ...]: ...

    @property
    def input_size(self) -> tuple[int, int]:
        """(width_px, height_px) of the model: what the scale of a rung is relative to."""
        ...

    @property
    def sha256(self) -> str:
        """Of the model."""
        ...

    def best(self, picture: Picture) -> Detections:
        """What it sees in the picture itself, nothing encoded: the reference. Raises NearfarError."""
        ...

    def answer(self, payload: bytes, encoding: Encoding, *, size_px: tuple[int, int]) -> FarAnswer:
        """What it sees in what a rung left of a picture of `size_px` (width, height). Raises NearfarError: Rejected
        for a payload a worker would refuse."""
        ...
