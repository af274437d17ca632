"""Lossless is a word with one meaning: any picture of any size, depth and layout comes back equal."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pipelines.codecs.base import PictureLimits
from pipelines.codecs.jpeg import JpegCodec
from pipelines.codecs.png import PngCodec
from pipelines.codecs.zstd import ZstdCodec
from pipelines.errors import Rejected
from pipelines.frame import Encoding, Picture

LIMITS = PictureLimits(pixels=12_000_000, decoded_bytes=64 << 20)
CODECS = (PngCodec(level=0), PngCodec(), ZstdCodec(), ZstdCodec(level=3))


@st.composite
def pictures(draw: st.DrawFn) -> Picture:
    """Of 1 to 24 px a side; noise, flat, or with few values; sometimes a view that is not contiguous."""
    height, width = draw(st.integers(1, 24)), draw(st.integers(1, 24))
    shape = (height, width, 3) if draw(st.booleans()) else (height, width)
    dtype = draw(st.sampled_from([np.uint8, np.uint16]))
    picture: Picture = draw(hnp.arrays(dtype, shape))
    match draw(st.integers(0, 3)):
        case 1:
            return picture[::-1]
        case 2:
            return picture[:, ::2]
        case 3 if len(shape) == 2:
            return picture.T
    return picture


@given(picture=pictures(), codec=st.sampled_from(CODECS))
@settings(max_examples=150, deadline=None)
def test_a_lossless_codec_gives_back_every_pixel(picture, codec):
    data, encoding = codec.encode(picture)
    decoded = codec.decode(data, encoding, LIMITS)
    assert decoded.dtype == picture.dtype
    assert np.array_equal(decoded, picture)


@given(data=st.binary(max_size=300), codec=st.sampled_from((JpegCodec(), *CODECS)))
@settings(max_examples=150, deadline=None)
def test_no_bytes_make_a_codec_fail_in_another_way_than_rejecting_them(data, codec):
    encoding = Encoding(codec=codec.name, quality=50, width_px=4, height_px=3)
    try:
        decoded = codec.decode(data, encoding, LIMITS)
    except Rejected:
        return
    assert decoded.shape == (3, 4, 3)
