"""An encoded picture of one grey: small, and a picture to any decoder."""

import cv2
import numpy as np


def grey_picture(suffix: str = ".jpg", size_px: tuple[int, int] = (64, 48)) -> bytes:
    """Of `size_px` (width, height), in the format of a file name that ends so."""
    done, data = cv2.imencode(suffix, np.full((size_px[1], size_px[0], 3), 90, np.uint8))
    assert done
    return data.tobytes()
