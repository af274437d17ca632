"""A frame and its identity, before and after encoding."""

import secrets
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Picture = NDArray[np.uint8 | np.uint16]
"""Pixels as `uint8` or `uint16`, `[height, width, 3]` in BGR order (OpenCV's) or `[height, width]` for one channel
(gray, thermal, depth). What detectors see is made of it by `pipelines.pictures.for_detector`."""

RUN_BYTES = 16


def new_run() -> bytes:
    """16 random bytes that name one start of an agent process."""
    return secrets.token_bytes(RUN_BYTES)


@dataclass(frozen=True, slots=True, order=True)
class FrameId:
    """The identity of one picture, never reused: `seq` counts from 1 at capture, before any slot or gate."""

    agent: str
    run: bytes
    stream: str
    seq: int

    def __str__(self) -> str:
        return f"{self.agent}/{self.run.hex()[:8]}/{self.stream}/{self.seq}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Frame:
    """One decoded picture, owned by whoever holds it; pixels are never written to after capture.

    `available_us` is the gateway's monotonic clock when the decoded picture could be used;
    `captured_us` is `available_us` − the source's latency: the zero of latency and of the deadline.
    `paced` is False for pull-driven sources, which stay outside on-time figures.
    """

    stream: str
    seq: int
    picture: Picture
    captured_us: int
    available_us: int
    captured_unix_us: int
    paced: bool = True

    @property
    def width_px(self) -> int:
        return int(self.picture.shape[1])

    @property
    def height_px(self) -> int:
        return int(self.picture.shape[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """How a payload was made; enough to judge its size before anything is allocated.

    `quality` 0 means the codec has none; `decoded_bytes` = width × height × channels × bits / 8.
    """

    codec: str
    quality: int
    width_px: int
    height_px: int
    bits: int = 8
    channels: int = 3
    body_bytes: int = 0

    @property
    def decoded_bytes(self) -> int:
        return self.width_px * self.height_px * self.channels * ((self.bits + 7) // 8)
