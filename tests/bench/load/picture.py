"""A JPEG whose bytes cost the network what a frame's do and whose pixels cost the decoder next to nothing."""

import cv2
import numpy as np

from pipelines.frame import Encoding

WIDTH_PX, HEIGHT_PX = 64, 48
_LARGEST_COMMENT_BYTES = 65_533


def padded_jpeg(size_bytes: int) -> tuple[bytes, Encoding]:
    """A grey picture of 64x48 with comments (T.81, B.2.4.5) that no decoder looks into, `size_bytes` in all."""
    done, data = cv2.imencode(".jpg", np.full((HEIGHT_PX, WIDTH_PX, 3), 90, np.uint8))
    plain = data.tobytes()
    assert done
    parts, left = [plain[:2]], size_bytes - len(plain)
    while left > 4:
        length = min(left, _LARGEST_COMMENT_BYTES + 2) - 2
        parts.append(b"\xff\xfe" + length.to_bytes(2, "big") + bytes(length - 2))
        left -= length + 2
    body = b"".join((*parts, plain[2:]))
    return body, Encoding(
        codec="jpeg", quality=95, width_px=WIDTH_PX, height_px=HEIGHT_PX, body_bytes=len(body)
    )
