"""Raw pixels behind a reversible filter, compressed by zstd: lossless and quick, made for thermal and depth.

The filter is fixed, it is the format: every row minus the row above, modulo 2^bits; 16-bit differences as
zigzag numbers (0, −1, 1, −2 … → 0, 1, 2, 3 …), all their low bytes first, then all their high bytes. Measured
on 640x512 thermal: 492 kB without it, 231 kB with it, and quicker. The payload is one zstd frame that names its content
size and carries a checksum; it is decompressed only when that size is the announced one, and never beyond it.
"""

from typing import Any, Self

import numpy as np
import zstandard
from numpy.typing import NDArray

from pipelines.codecs.base import PictureLimits, PictureShape, check_announced, scaled, shape_of
from pipelines.codecs.kinds import DEFAULT_LEVEL
from pipelines.errors import Rejected
from pipelines.frame import Encoding, Picture

_LARGEST_WINDOW_BYTES = 128 << 20  # zstd's own default bound; a frame that asks for more is refused


class ZstdCodec:
    """`level` 1 (quick) to 19 (small) is zstd's."""

    def __init__(self, *, level: int = DEFAULT_LEVEL) -> None:
        self._level = level

    @classmethod
    def from_config(cls, config: Any) -> Self:
        return cls(level=config.level)

    @property
    def name(self) -> str:
        return "zstd"

    def encode(
        self,
        picture: Picture,
        *,
        quality: int = 0,  # noqa: ARG002 - lossless: there is none
        size: tuple[int, int] | None = None,
    ) -> tuple[bytes, Encoding]:
        """`picture` scaled down to `size` (width_px, height_px), never up; exact from there on."""
        shape_of(picture)
        picture = scaled(picture, size)
        shape = shape_of(picture)
        # A compressor serves one thread at a time; a new one costs microseconds.
        compressor = zstandard.ZstdCompressor(level=self._level, write_checksum=True, write_content_size=True)
        body = compressor.compress(_filtered(picture).data)
        return body, shape.encoding(codec=self.name, body=body)

    def decode(self, data: bytes | memoryview, encoding: Encoding, limits: PictureLimits) -> Picture:
        """The picture in `data`. Raises Rejected as `Codec.decode` says."""
        said = check_announced(data, encoding, limits, codec=self.name)
        try:
            frame = zstandard.get_frame_parameters(data)
        except zstandard.ZstdError as error:
            raise Rejected(f"not a zstd frame: {error}") from error
        # A frame that does not name its size reports one no picture has.
        if frame.content_size != encoding.decoded_bytes:
            raise Rejected(
                f"announced as {said} ({encoding.decoded_bytes} bytes), "
                f"but the zstd frame says {frame.content_size} bytes"
            )
        if frame.dict_id:
            raise Rejected("a zstd frame that needs a dictionary; send it without")
        try:
            decompressor = zstandard.ZstdDecompressor(max_window_size=_LARGEST_WINDOW_BYTES)
            raw = decompressor.decompress(
                data, max_output_size=encoding.decoded_bytes, allow_extra_data=False
            )
        except zstandard.ZstdError as error:
            raise Rejected(f"damaged zstd frame: {error}") from error
        if len(raw) != encoding.decoded_bytes:
            raise Rejected(f"damaged zstd frame: {len(raw)} of {encoding.decoded_bytes} bytes inside")
        return _unfiltered(raw, said)


def _filtered(picture: Picture) -> NDArray[np.uint8]:
    """The bytes that are compressed, contiguous."""
    if picture.dtype == np.uint8:
        rows = np.ascontiguousarray(picture, np.uint8)
        below = rows.copy()
        np.subtract(rows[1:], rows[:-1], out=below[1:])
        return below
    deep = np.ascontiguousarray(picture, np.uint16)
    signed = deep.view(np.int16).copy()
    np.subtract(deep[1:], deep[:-1], out=signed[1:].view(np.uint16))
    numbers = ((signed << 1) ^ (signed >> 15)).view(np.uint16)
    halves = np.empty((2, *numbers.shape), np.uint8)
    halves[0] = numbers & 0xFF
    halves[1] = numbers >> 8
    return halves


def _unfiltered(raw: bytes, shape: PictureShape) -> Picture:
    """The picture whose filtered bytes are `raw`; the inverse of `_filtered`."""
    size = (shape.height_px, shape.width_px, 3)[: 2 if shape.channels == 1 else 3]
    if shape.bits == 8:
        below = np.frombuffer(raw, np.uint8).reshape(size)
        return np.add.accumulate(below, axis=0, dtype=np.uint8)
    low, high = np.frombuffer(raw, np.uint8).reshape(2, *size)
    numbers = high.astype(np.uint16)
    numbers <<= 8
    numbers |= low
    signed = (numbers >> 1) ^ (0 - (numbers & 1))
    return np.add.accumulate(signed, axis=0, dtype=np.uint16)
