"""JPEG: the codec every camera and every worker understands; 8 bits, colour or gray.

Decoding reads the frame header itself and counts the scans before OpenCV sees anything, so that a small payload
costs nothing that claims a huge picture or goes over it again and again. What is decoded is exactly what the
encoding said, or Rejected.
"""

import struct
from dataclasses import dataclass
from typing import Any, Self

import cv2
import numpy as np

from pipelines.codecs.base import PictureLimits, PictureShape, check_announced, scaled, shape_of
from pipelines.errors import Rejected
from pipelines.frame import Encoding, Picture

_SOI, _EOI, _SOS, _TEM = 0xD8, 0xD9, 0xDA, 0x01
_RESTARTS = range(0xD0, 0xD8)
# Baseline and extended sequential Huffman: each component is in one scan, so once more scans than components are
# refused, time and memory follow the picture's size.
_FRAMES = (0xC0, 0xC1)
# Every other start of frame (progressive, whose thousands of scans may cost seconds, lossless, hierarchical,
# arithmetic); C4, C8 and CC are tables, not frames.
_FOREIGN_FRAMES = (0xC2, 0xC3, 0xC5, 0xC6, 0xC7, 0xC9, 0xCA, 0xCB, 0xCD, 0xCE, 0xCF)
_LARGEST_SIDE_PX = 65500  # libjpeg's JPEG_MAX_DIMENSION
_MOST_STEPS = 4096  # segments and fill bytes before the frame header; cameras write about ten
_SCAN = bytes((0xFF, _SOS))


@dataclass(frozen=True, slots=True, kw_only=True)
class JpegHeader:
    """What a start-of-frame segment says: `bits` per sample, size, colour components; it ends at byte `end`."""

    bits: int
    width_px: int
    height_px: int
    components: int
    end: int


def read_header(data: bytes | memoryview) -> JpegHeader:
    """The first start-of-frame segment (ITU-T T.81, B.2.2). Raises Rejected when there is none to trust, or none among
    the first few thousand segments."""
    if len(data) < 4 or data[0] != 0xFF or data[1] != _SOI:
        raise Rejected(f"not a JPEG: it begins with {bytes(data[:4]).hex(' ') or 'nothing'}")
    at = 2
    for _ in range(_MOST_STEPS):
        if at + 4 > len(data):
            break
        if data[at] != 0xFF:
            raise Rejected(f"damaged JPEG: no marker at byte {at}")
        marker = data[at + 1]
        if marker == 0xFF:  # fill byte
            at += 1
        elif marker == _TEM or marker in _RESTARTS:  # stands alone
            at += 2
        elif marker in (_EOI, _SOS) or marker in _FOREIGN_FRAMES:
            raise Rejected(f"damaged JPEG or not a sequential one: marker {marker:#04x} at byte {at}")
        else:
            (length,) = struct.unpack_from(">H", data, at + 2)
            if length < 2:
                raise Rejected(f"damaged JPEG: a segment of {length} bytes at byte {at}")
            if marker in _FRAMES:
                if length < 8 or at + 10 > len(data):
                    break
                bits, height, width, components = struct.unpack_from(">BHHB", data, at + 4)
                return JpegHeader(
                    bits=bits, width_px=width, height_px=height, components=components, end=at + 2 + length
                )
            at += 2 + length
    raise Rejected("damaged JPEG: it ends before its frame header, or has too many segments before it")


def _check_scans(data: bytes | memoryview, header: JpegHeader) -> None:
    """At most one scan per component: a scan of few bytes costs the decoder as much time as a whole one.

    Entropy-coded data never holds FF DA (a byte FF is followed by 00 there), so no scan is missed however the bytes
    between are read; a table or comment that holds it counts as well, and nothing this codec writes does.
    """
    scans = bytes(data[header.end :]).count(_SCAN)
    if scans > header.components:
        raise Rejected(f"a JPEG of {header.components} components in {scans} scans: at most one each")


class JpegCodec:
    """Pictures as baseline JPEG; `quality` 1..100 is libjpeg's."""

    @classmethod
    def from_config(cls, _config: Any) -> Self:
        return cls()

    @property
    def name(self) -> str:
        return "jpeg"

    def encode(
        self, picture: Picture, *, quality: int, size: tuple[int, int] | None = None
    ) -> tuple[bytes, Encoding]:
        """`picture` as JPEG, each side scaled down to `size` (width_px, height_px), never up.

        Raises Rejected for a quality outside 1..100, a side above 65500 px, and for 16 bits.
        """
        if shape_of(picture).bits != 8:
            raise Rejected("JPEG carries 8 bits per channel, not 16: use a rung with codec png or zstd")
        if not 1 <= quality <= 100:
            raise Rejected(f"JPEG quality {quality} is outside 1..100")
        picture = scaled(picture, size)
        shape = shape_of(picture)
        if max(shape.width_px, shape.height_px) > _LARGEST_SIDE_PX:
            raise Rejected(f"JPEG cannot carry {shape.width_px}x{shape.height_px} pixels")
        try:
            done, data = cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, quality])
        except cv2.error as error:
            raise Rejected(f"JPEG encoding failed: {error}") from error
        if not done:
            raise Rejected(f"JPEG encoding of {shape} failed")
        body = data.tobytes()
        return body, Encoding(
            codec=self.name,
            quality=quality,
            width_px=shape.width_px,
            height_px=shape.height_px,
            channels=shape.channels,
            body_bytes=len(body),
        )

    def decode(self, data: bytes | memoryview, encoding: Encoding, limits: PictureLimits) -> Picture:
        """The picture in `data`, BGR or gray. Raises Rejected as `Codec.decode` says."""
        said = check_announced(data, encoding, limits, codec=self.name)
        header = read_header(data)
        found = PictureShape(
            width_px=header.width_px, height_px=header.height_px, channels=header.components, bits=header.bits
        )
        if said != found:
            raise Rejected(f"announced as {said}, but the JPEG says {found}")
        if bytes(data[-2:]) != bytes((0xFF, _EOI)):
            raise Rejected("damaged JPEG: cut off before its end marker")
        _check_scans(data, header)
        # The orientation in EXIF is ignored: boxes are in the pixels that were captured.
        flags = cv2.IMREAD_COLOR if said.channels == 3 else cv2.IMREAD_GRAYSCALE
        try:
            picture = cv2.imdecode(np.frombuffer(data, np.uint8), flags | cv2.IMREAD_IGNORE_ORIENTATION)
        except cv2.error as error:
            raise Rejected(f"damaged JPEG: {error}") from error
        wanted = (said.height_px, said.width_px, 3)[: 2 if said.channels == 1 else 3]
        if picture is None or picture.shape != wanted:
            raise Rejected("damaged JPEG: the decoder gave no such picture")
        return picture.astype(np.uint8, copy=False)
