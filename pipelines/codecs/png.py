"""PNG: lossless, 8 or 16 bits, colour or gray; every viewer opens it.

Decoding walks the chunks itself before OpenCV sees them: the header must say what was announced, and only
IHDR, IDAT and IEND are taken, so no text, profile, palette or animation chunk can inflate to anything. What the
pixels inflate to is bounded by the size in the header.
"""

import struct
from typing import Any, Self

import cv2
import numpy as np

from pipelines.codecs.base import PictureLimits, PictureShape, check_announced, scaled, shape_of
from pipelines.codecs.kinds import DEFAULT_LEVEL
from pipelines.errors import Rejected
from pipelines.frame import Encoding, Picture

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_AROUND_BYTES = 12  # length, type and CRC of a chunk
_CHANNELS = {0: 1, 2: 3}  # colour type → channels: gray and colour without alpha or palette
_LARGEST_SIDE_PX = 1_000_000  # libpng's default PNG_USER_WIDTH_MAX and PNG_USER_HEIGHT_MAX


def read_header(data: bytes | memoryview) -> PictureShape:
    """What IHDR says, when `data` is IHDR, one or more IDAT and IEND in whole chunks and nothing else (PNG
    specification, 5 and 11.2). Raises Rejected otherwise."""
    if bytes(data[:8]) != _SIGNATURE:
        raise Rejected(f"not a PNG: it begins with {bytes(data[:8]).hex(' ') or 'nothing'}")
    if len(data) < 8 + _AROUND_BYTES + 13 or struct.unpack_from(">I4s", data, 8) != (13, b"IHDR"):
        raise Rejected("damaged PNG: it does not begin with its header")
    width, height, bits, colour, compression, filtering, interlace = struct.unpack_from(">IIBBBBB", data, 16)
    if bits not in (8, 16) or colour not in _CHANNELS or compression or filtering or interlace:
        raise Rejected(
            f"a PNG of {bits} bits, colour type {colour}, interlace {interlace}; "
            "taken are 8 or 16 bits, gray (0) or colour (2), not interlaced"
        )
    at, before = 8 + _AROUND_BYTES + 13, b"IHDR"
    while before != b"IEND":
        if at + _AROUND_BYTES > len(data):
            raise Rejected("damaged PNG: cut off before its end")
        length, kind = struct.unpack_from(">I4s", data, at)
        if kind not in (b"IDAT", b"IEND") or (kind == b"IEND" and (length or before == b"IHDR")):
            raise Rejected(f"a PNG with a chunk {kind!r} after {before!r}; send IHDR, IDAT and IEND only")
        at, before = at + _AROUND_BYTES + length, kind
    if at != len(data):
        raise Rejected(f"damaged PNG: {len(data)} bytes came, its chunks end at byte {at}")
    return PictureShape(width_px=width, height_px=height, channels=_CHANNELS[colour], bits=bits)


class PngCodec:
    """`level` 0 (stored) to 9 (smallest, slowest) is zlib's."""

    def __init__(self, *, level: int = DEFAULT_LEVEL) -> None:
        self._level = level

    @classmethod
    def from_config(cls, config: Any) -> Self:
        return cls(level=config.level)

    @property
    def name(self) -> str:
        return "png"

    def encode(
        self,
        picture: Picture,
        *,
        quality: int = 0,  # noqa: ARG002 - lossless: there is none
        size: tuple[int, int] | None = None,
    ) -> tuple[bytes, Encoding]:
        """`picture` as PNG, scaled down to `size` (width_px, height_px), never up; exact from there on."""
        shape_of(picture)
        picture = scaled(picture, size)
        shape = shape_of(picture)
        if max(shape.width_px, shape.height_px) > _LARGEST_SIDE_PX:
            raise Rejected(f"PNG cannot carry {shape.width_px}x{shape.height_px} pixels")
        try:
            done, data = cv2.imencode(".png", picture, [cv2.IMWRITE_PNG_COMPRESSION, self._level])
        except cv2.error as error:
            raise Rejected(f"PNG encoding failed: {error}") from error
        if not done:
            raise Rejected(f"PNG encoding of {shape} failed")
        body = data.tobytes()
        return body, shape.encoding(codec=self.name, body=body)

    def decode(self, data: bytes | memoryview, encoding: Encoding, limits: PictureLimits) -> Picture:
        """The picture in `data`. Raises Rejected as `Codec.decode` says."""
        said = check_announced(data, encoding, limits, codec=self.name)
        found = read_header(data)
        if said != found:
            raise Rejected(f"announced as {said}, but the PNG says {found}")
        try:
            picture = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
        except cv2.error as error:
            raise Rejected(f"damaged PNG: {error}") from error
        wanted = (said.height_px, said.width_px, 3)[: 2 if said.channels == 1 else 3]
        if picture is None or picture.shape != wanted or picture.dtype.itemsize * 8 != said.bits:
            raise Rejected("damaged PNG: the decoder gave no such picture")
        return picture.astype(np.uint8 if said.bits == 8 else np.uint16, copy=False)
