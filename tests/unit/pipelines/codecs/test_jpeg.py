"""JPEG: what is decoded is what was announced, and nothing is allocated on a payload's word."""

from dataclasses import replace

import cv2
import numpy as np
import pytest

from pipelines.codecs.base import PictureLimits
from pipelines.codecs.jpeg import JpegCodec, read_header
from pipelines.errors import Rejected
from pipelines.frame import Encoding, Picture

LIMITS = PictureLimits(pixels=12_000_000, decoded_bytes=64 << 20)
codec = JpegCodec()


def street(width: int = 160, height: int = 96) -> Picture:
    ramp = np.linspace(0, 255, width, dtype=np.uint8)
    picture: Picture = np.broadcast_to(ramp[None, :, None], (height, width, 3)).copy()
    picture[height // 4 : height // 2, width // 4 : width // 2] = (40, 200, 90)
    return picture


def test_a_picture_wider_than_jpeg_can_be_is_rejected_unless_it_is_scaled_down():
    wide = np.zeros((1, 65_501, 3), np.uint8)
    with pytest.raises(Rejected, match="cannot carry 65501x1"):
        codec.encode(wide, quality=80)
    assert codec.encode(wide, quality=80, size=(640, 1))[1].width_px == 640


def test_lower_quality_costs_fewer_bytes():
    noise = np.random.default_rng(3).integers(0, 255, (96, 160, 3), np.uint8)
    sizes = [len(codec.encode(noise, quality=q)[0]) for q in (20, 50, 90)]
    assert sizes == sorted(set(sizes))


@pytest.mark.parametrize("quality", [0, 101, -3])
def test_a_quality_outside_1_to_100_is_rejected(quality):
    with pytest.raises(Rejected, match=r"outside 1\.\.100"):
        codec.encode(street(), quality=quality)


def with_size(data: bytes, width: int, height: int) -> bytes:
    """The same JPEG whose frame header claims another size."""
    at = data.index(b"\xff\xc0")
    return data[: at + 5] + height.to_bytes(2, "big") + width.to_bytes(2, "big") + data[at + 9 :]


@pytest.fixture
def no_decoder(monkeypatch):
    """Decoding is an error here: the refusal must come before OpenCV sees the payload."""

    def refuse(*_):
        raise AssertionError("the decoder was called")

    monkeypatch.setattr(cv2, "imdecode", refuse)


def test_a_small_payload_that_claims_a_huge_picture_is_rejected_before_the_decoder_sees_it(no_decoder):
    data, encoding = codec.encode(street(), quality=80)
    bomb = with_size(data, 60_000, 60_000)
    honest = replace(encoding, width_px=60_000, height_px=60_000)
    with pytest.raises(Rejected, match="exceed the limit"):
        codec.decode(bomb, honest, LIMITS)
    with pytest.raises(Rejected, match="the JPEG says"):
        codec.decode(bomb, encoding, LIMITS)


def test_too_many_decoded_bytes_are_rejected_even_when_the_pixels_are_few(no_decoder):
    data, encoding = codec.encode(street(), quality=80)
    with pytest.raises(Rejected, match="exceed the limit"):
        codec.decode(data, encoding, PictureLimits(pixels=1 << 30, decoded_bytes=encoding.decoded_bytes - 1))


def test_too_many_pixels_are_rejected_even_when_their_bytes_are_allowed(no_decoder):
    data, encoding = codec.encode(street(), quality=80)
    with pytest.raises(Rejected, match="exceed the limit"):
        codec.decode(data, encoding, PictureLimits(pixels=160 * 96 - 1, decoded_bytes=1 << 30))


@pytest.mark.parametrize(
    "lie",
    [
        {"width_px": 161},
        {"height_px": 95},
        {"channels": 1},
        {"bits": 12},
        {"body_bytes": 7},
        {"codec": "webp"},
    ],
)
def test_a_payload_unlike_its_encoding_is_rejected_before_the_decoder_sees_it(lie, no_decoder):
    data, encoding = codec.encode(street(), quality=80)
    with pytest.raises(Rejected):
        codec.decode(data, replace(encoding, **lie), LIMITS)


def test_a_grey_jpeg_announced_as_colour_is_rejected(no_decoder):
    grey = cv2.imencode(".jpg", np.zeros((96, 160), np.uint8))[1].tobytes()
    with pytest.raises(Rejected, match="the JPEG says"):
        codec.decode(grey, Encoding(codec="jpeg", quality=95, width_px=160, height_px=96), LIMITS)


def test_a_progressive_jpeg_is_rejected_since_its_scans_may_cost_any_time(no_decoder):
    flags = [cv2.IMWRITE_JPEG_PROGRESSIVE, 1]
    progressive = cv2.imencode(".jpg", street(), flags)[1].tobytes()
    with pytest.raises(Rejected, match="not a sequential one"):
        codec.decode(progressive, Encoding(codec="jpeg", quality=95, width_px=160, height_px=96), LIMITS)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x89PNG\r\n\x1a\n" + bytes(40),
        b"\xff\xd8\x00\x00\x00\x00",
        b"\xff\xd8\xff\xe0\x00\x00\x00\x00",
        b"\xff\xd8\xff\xd9",
    ],
)
def test_what_is_no_jpeg_is_rejected(data):
    with pytest.raises(Rejected):
        read_header(data)


def test_the_header_is_found_behind_other_segments_and_fill_bytes():
    data, _ = codec.encode(street(), quality=80)
    comment = b"\xff\xfe\x00\x06abcd"
    padded = data[:2] + comment + b"\xff\xff" + data[2:]
    header = read_header(padded)
    assert (header.width_px, header.height_px, header.components, header.bits) == (160, 96, 3, 8)
