"""What a codec is, and the checks every codec makes the same way: before coding and before decoding."""

from dataclasses import dataclass
from typing import Protocol

import cv2
import numpy as np

from pipelines.errors import Rejected
from pipelines.frame import Encoding, Picture


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureLimits:
    """Largest picture that is decoded: `pixels` = width × height, `decoded_bytes` after decompression."""

    pixels: int
    decoded_bytes: int


class Codec(Protocol):
    """Stateless, safe to call from several threads; both ways release the GIL.

    Those registered in `codecs.kinds` are made without arguments to decode and by `from_config(rung)` to encode.
    """

    @property
    def name(self) -> str: ...

    def encode(
        self, picture: Picture, *, quality: int, size: tuple[int, int] | None = None
    ) -> tuple[bytes, Encoding]:
        """`picture` scaled down to `size` (width_px, height_px; None = as it is; never scaled up), as bytes.

        A codec without a quality takes any and says 0. Raises Rejected for a picture the codec cannot carry.
        """
        ...

    def decode(self, data: bytes | memoryview, encoding: Encoding, limits: PictureLimits) -> Picture:
        """The picture in `data`: `bits` and `channels` as announced, one channel as [height, width].

        Raises Rejected, before allocating, when the header in `data` exceeds `limits` or does not say what
        `encoding` says, and when the data is damaged.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureShape:
    """Size in pixels, channels (1 or 3) and bits per channel (8 or 16)."""

    width_px: int
    height_px: int
    channels: int
    bits: int

    def __str__(self) -> str:
        return f"{self.width_px}x{self.height_px}, {self.channels} × {self.bits} bits"

    def encoding(self, *, codec: str, body: bytes, quality: int = 0) -> Encoding:
        """What a picture of this shape in `body` announces; `quality` 0 = the codec has none."""
        return Encoding(
            codec=codec,
            quality=quality,
            width_px=self.width_px,
            height_px=self.height_px,
            bits=self.bits,
            channels=self.channels,
            body_bytes=len(body),
        )


def shape_of(picture: Picture) -> PictureShape:
    """Raises Rejected for anything but uint8 or uint16, [height, width] or [height, width, 3], not empty."""
    channels = {2: 1, 3: picture.shape[-1]}.get(picture.ndim, 0)
    if picture.dtype not in (np.uint8, np.uint16) or channels not in (1, 3) or not picture.size:
        raise Rejected(
            "a picture is uint8 or uint16, [height, width] or [height, width, 3], "
            f"not {picture.dtype} {list(picture.shape)}"
        )
    if picture.ndim == 3 and channels == 1:
        raise Rejected(f"a picture of one channel is [height, width], not {list(picture.shape)}")
    height, width = picture.shape[:2]
    return PictureShape(width_px=width, height_px=height, channels=channels, bits=8 * picture.dtype.itemsize)


def scaled(picture: Picture, size: tuple[int, int] | None) -> Picture:
    """Each side scaled down to `size` (width_px, height_px) by area, never up; the same array if it fits."""
    height, width = picture.shape[:2]
    if size is None:
        return picture
    target = (max(1, min(size[0], width)), max(1, min(size[1], height)))
    if target == (width, height):
        return picture
    return cv2.resize(picture, target, interpolation=cv2.INTER_AREA).astype(picture.dtype, copy=False)


def check_announced(
    data: bytes | memoryview, encoding: Encoding, limits: PictureLimits, *, codec: str
) -> PictureShape:
    """What `encoding` announces, once it may be decoded: the codec's own, as many bytes as came, in limits.

    Raises Rejected.
    """
    if encoding.codec != codec:
        raise Rejected(f"codec {encoding.codec!r} given to the {codec} decoder")
    if encoding.body_bytes and encoding.body_bytes != len(data):
        raise Rejected(f"{len(data)} bytes arrived, {encoding.body_bytes} were announced")
    said = PictureShape(
        width_px=encoding.width_px,
        height_px=encoding.height_px,
        channels=encoding.channels,
        bits=encoding.bits,
    )
    if said.channels not in (1, 3) or said.bits not in (8, 16) or said.width_px < 1 or said.height_px < 1:
        raise Rejected(f"no picture is {said}")
    if said.width_px * said.height_px > limits.pixels or encoding.decoded_bytes > limits.decoded_bytes:
        raise Rejected(
            f"{said} ({encoding.decoded_bytes} bytes) exceed the limit of {limits.pixels} pixels "
            f"or {limits.decoded_bytes} bytes"
        )
    return said
