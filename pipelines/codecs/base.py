"""What a codec is."""

from dataclasses import dataclass
from typing import Protocol

from pipelines.frame import Encoding, Picture


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureLimits:
    """Largest picture that is decoded: `pixels` = width × height, `decoded_bytes` after decompression."""

    pixels: int
    decoded_bytes: int


class Codec(Protocol):
    """Stateless, safe to call from several threads; both ways release the GIL."""

    @property
    def name(self) -> str: ...

    def encode(
        self, picture: Picture, *, quality: int, size: tuple[int, int] | None = None
    ) -> tuple[bytes, Encoding]:
        """`picture` scaled down to `size` (width_px, height_px; None = as it is; never scaled up), as bytes.

        Raises Rejected for a picture the codec cannot carry.
        """
        ...

    def decode(self, data: bytes | memoryview, encoding: Encoding, limits: PictureLimits) -> Picture:
        """The picture in `data`.

        Raises Rejected, before allocating, when the header in `data` exceeds `limits` or does not say what
        `encoding` says, and when the data is damaged.
        """
        ...
