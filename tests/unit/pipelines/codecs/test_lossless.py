"""PNG and zstd: a small payload never becomes a large allocation, and damage is never a picture."""

import struct
import tracemalloc
import zlib
from dataclasses import replace

import cv2
import numpy as np
import pytest
import zstandard

from pipelines.codecs.base import PictureLimits
from pipelines.codecs.png import PngCodec
from pipelines.codecs.zstd import ZstdCodec
from pipelines.errors import Rejected
from pipelines.frame import Encoding

LIMITS = PictureLimits(pixels=12_000_000, decoded_bytes=64 << 20)
BOMB_BYTES = 400 << 20
png, zstd = PngCodec(), ZstdCodec()


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png_file(
    *,
    size: tuple[int, int] = (50, 40),
    bits: int = 8,
    colour: int = 0,
    interlace: int = 0,
    raw: bytes | None = None,
    extra: bytes = b"",
) -> bytes:
    """A PNG made by hand; `raw` are the filtered rows (None: black ones), `extra` chunks behind the header."""
    width, height = size
    rows = bytes(height * (1 + width * bits // 8)) if raw is None else raw
    header = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, interlace)
    body = chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + extra + body


GRAY = Encoding(codec="png", quality=0, width_px=50, height_px=40, channels=1)


@pytest.fixture
def no_decoder(monkeypatch):
    """Decoding is an error here: the refusal must come before OpenCV sees the payload."""

    def refuse(*_):
        raise AssertionError("the decoder was called")

    monkeypatch.setattr(cv2, "imdecode", refuse)


def peak_bytes(call) -> int:
    tracemalloc.start()
    try:
        call()
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak


def test_a_png_made_elsewhere_is_decoded():
    assert png.decode(png_file(), GRAY, LIMITS).shape == (40, 50)


@pytest.mark.parametrize("honest", [True, False])
def test_a_small_png_that_claims_a_huge_picture_is_rejected_before_the_decoder_sees_it(no_decoder, honest):
    # F10
    bomb = png_file(size=(60_000, 60_000), raw=bytes(1000))
    encoding = replace(GRAY, width_px=60_000, height_px=60_000) if honest else GRAY
    with pytest.raises(Rejected, match="exceed the limit" if honest else "the PNG says"):
        png.decode(bomb, encoding, LIMITS)


def test_a_png_whose_pixels_inflate_beyond_its_size_costs_no_more_than_its_size():
    # F10: 400 MB of zeros behind a header of 50x40
    bomb = png_file(raw=bytes(BOMB_BYTES))
    assert len(bomb) < 500_000
    before = png.decode(png_file(), GRAY, LIMITS)
    assert peak_bytes(lambda: png.decode(bomb, GRAY, LIMITS)) < 4 << 20
    assert np.array_equal(png.decode(bomb, GRAY, LIMITS), before)


@pytest.mark.parametrize("kind", [b"zTXt", b"iCCP", b"iTXt", b"acTL", b"PLTE", b"tRNS", b"eXIf"])
def test_a_png_with_a_chunk_besides_pixels_is_rejected_before_the_decoder_sees_it(no_decoder, kind):
    extra = chunk(kind, b"name\0\0" + zlib.compress(bytes(1_000_000)))
    with pytest.raises(Rejected, match="IHDR, IDAT and IEND only"):
        png.decode(png_file(extra=extra), GRAY, LIMITS)


@pytest.mark.parametrize(
    "layout",
    [{"bits": 4}, {"bits": 1}, {"colour": 3}, {"colour": 6}, {"colour": 4}, {"interlace": 1}],
    ids=str,
)
def test_a_png_of_a_layout_that_is_not_taken_says_which_are(no_decoder, layout):
    with pytest.raises(Rejected, match="taken are 8 or 16 bits"):
        png.decode(png_file(**layout), GRAY, LIMITS)


def test_a_png_with_too_few_pixels_is_rejected():
    with pytest.raises(Rejected, match="damaged PNG"):
        png.decode(png_file(raw=bytes(500)), GRAY, LIMITS)


def test_a_chunk_that_says_it_is_longer_than_the_payload_is_rejected(no_decoder):
    data = bytearray(png_file())
    at = data.index(b"IDAT") - 4
    data[at : at + 4] = b"\x7f\xff\xff\xff"
    with pytest.raises(Rejected, match="cut off"):
        png.decode(bytes(data), GRAY, LIMITS)


THERMAL = Encoding(codec="zstd", quality=0, width_px=50, height_px=40, channels=1, bits=16)


def test_400_kb_that_inflate_to_400_mb_are_rejected_before_anything_is_allocated():
    # F10
    bomb = zstandard.ZstdCompressor(level=1).compress(bytes(BOMB_BYTES))
    assert len(bomb) < 500_000

    def refused():
        with pytest.raises(Rejected, match=f"says {BOMB_BYTES} bytes"):
            zstd.decode(bomb, THERMAL, LIMITS)

    assert peak_bytes(refused) < 1 << 20


def test_a_bomb_that_is_announced_as_such_exceeds_the_limit():
    # F10
    announced = Encoding(codec="zstd", quality=0, width_px=20_000, height_px=20_000, channels=1)
    bomb = zstandard.ZstdCompressor(level=1).compress(bytes(20_000 * 20_000))
    with pytest.raises(Rejected, match="exceed the limit"):
        zstd.decode(bomb, announced, LIMITS)


def test_a_frame_that_does_not_name_its_size_is_rejected():
    silent = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(THERMAL.decoded_bytes))
    with pytest.raises(Rejected, match="but the zstd frame says"):
        zstd.decode(silent, THERMAL, LIMITS)


def with_content_size(frame: bytes, size: int) -> bytes:
    """The same frame whose header claims another size; its own is written in 2 bytes, less 256 (RFC 8878, 3.1.1)."""
    parameters = zstandard.get_frame_parameters(frame)
    assert 256 <= parameters.content_size < 65_792
    at = frame.index(struct.pack("<H", parameters.content_size - 256), 4)
    return frame[:at] + struct.pack("<H", size - 256) + frame[at + 2 :]


@pytest.mark.parametrize("inside", [THERMAL.decoded_bytes + 1, THERMAL.decoded_bytes - 1, 60_000, 300])
def test_a_frame_that_lies_about_its_size_is_rejected(inside):
    frame = zstandard.ZstdCompressor(write_content_size=True).compress(bytes(inside))
    lying = with_content_size(frame, THERMAL.decoded_bytes)
    assert zstandard.get_frame_parameters(lying).content_size == THERMAL.decoded_bytes
    with pytest.raises(Rejected, match="damaged zstd frame"):
        zstd.decode(lying, THERMAL, LIMITS)


def test_thermal_pictures_are_smaller_than_their_raw_bytes_by_zstd_alone():
    rows, columns = np.mgrid[0:240, 0:320]
    noise = np.random.default_rng(4).normal(0, 8, (240, 320))
    picture = (29_000 + 400 * np.sin(columns / 90) + 300 * np.cos(rows / 70) + noise).astype(np.uint16)
    ours = len(zstd.encode(picture)[0])
    assert ours < 0.6 * len(zstandard.ZstdCompressor(level=1).compress(picture.tobytes()))
    assert ours < 0.8 * len(png.encode(picture)[0])


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_the_steepest_steps_survive_the_filter(dtype):
    most = np.iinfo(dtype).max
    for picture in (
        np.array([[0, most], [most, 0], [0, 0], [most, most]], dtype),
        np.array([[most]], dtype),
        np.array([[1, most // 2, most // 2 + 1]], dtype),
        np.full((3, 1, 3), most // 2 + 1, dtype),
    ):
        data, encoding = zstd.encode(picture)
        assert np.array_equal(zstd.decode(data, encoding, LIMITS), picture)
