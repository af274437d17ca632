"""What a picture says of itself, read from its first bytes: for those who send it without a description.

Only JPEG and PNG say it; raw pixels do not. Nothing is decoded or allocated.
"""

from collections.abc import Callable, Mapping

from pipelines.codecs import jpeg, png
from pipelines.codecs.base import PictureShape

_FIRST_BYTES = {b"\xff\xd8\xff": "jpeg", b"\x89PNG\r\n\x1a\n": "png"}


def codec_of(data: bytes) -> str:
    """The codec whose pictures begin like this; empty if none of those that can be told apart."""
    return next((name for first, name in _FIRST_BYTES.items() if data.startswith(first)), "")


def shape_in(data: bytes, codec: str) -> PictureShape | None:
    """Size, channels and bits as its header says; None where the codec's pictures do not say it.

    Raises Rejected when there is no header to trust.
    """
    read = _READERS.get(codec)
    return None if read is None else read(data)


def _jpeg(data: bytes) -> PictureShape:
    found = jpeg.read_header(data)
    return PictureShape(
        width_px=found.width_px, height_px=found.height_px, channels=found.components, bits=found.bits
    )


_READERS: Mapping[str, Callable[[bytes], PictureShape]] = {"jpeg": _jpeg, "png": png.read_header}
