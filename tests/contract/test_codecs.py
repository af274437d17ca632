"""Every codec: what is decoded is what was encoded and announced, and nothing is allocated on a payload's word."""

from dataclasses import replace

import numpy as np
import pytest

from pipelines.codecs.base import Codec, PictureLimits
from pipelines.codecs.jpeg import JpegCodec
from pipelines.codecs.kinds import CODECS, RungConfig
from pipelines.codecs.png import PngCodec
from pipelines.codecs.zstd import ZstdCodec
from pipelines.errors import Rejected
from pipelines.frame import Encoding, Picture

LIMITS = PictureLimits(pixels=12_000_000, decoded_bytes=64 << 20)
MADE: dict[str, Codec] = {"jpeg": JpegCodec(), "png": PngCodec(), "zstd": ZstdCodec()}
LOSSLESS = ("png", "zstd")
SHAPES = [((96, 160, 3), np.uint8), ((96, 160), np.uint8), ((96, 160), np.uint16), ((96, 160, 3), np.uint16)]


def scene(
    shape: tuple[int, ...] = (96, 160, 3), dtype: type[np.uint8] | type[np.uint16] = np.uint8
) -> Picture:
    """A ramp with a bright corner, over the whole range of `dtype`."""
    most = np.iinfo(dtype).max
    picture = np.empty(shape, dtype)
    ramp = np.linspace(0, most, shape[1]).astype(dtype)
    picture[:] = ramp[None, :, None] if len(shape) == 3 else ramp
    picture[: shape[0] // 3, : shape[1] // 3] = most * 3 // 4
    return picture


@pytest.fixture(params=[kind.name for kind in CODECS])
def codec(request: pytest.FixtureRequest) -> Codec:
    return MADE[request.param]


def encoded(codec: Codec, picture: Picture, **changes) -> tuple[bytes, Encoding]:
    return codec.encode(picture, **({"quality": 80} | changes))


@pytest.mark.parametrize(
    ("name", "shape", "dtype"),
    [(n, shape, dtype) for n in MADE for shape, dtype in SHAPES if n in LOSSLESS or dtype == np.uint8],
)
def test_a_picture_comes_back_in_its_size_channels_and_bits(name, shape, dtype):
    codec = MADE[name]
    picture = scene(shape, dtype)
    data, encoding = encoded(codec, picture)
    channels = 3 if len(shape) == 3 else 1
    assert encoding == Encoding(
        codec=codec.name,
        quality=0 if codec.name in LOSSLESS else 80,
        width_px=160,
        height_px=96,
        bits=8 * np.dtype(dtype).itemsize,
        channels=channels,
        body_bytes=len(data),
    )
    decoded = codec.decode(data, encoding, LIMITS)
    assert (decoded.dtype, decoded.shape) == (picture.dtype, picture.shape)
    assert encoding.decoded_bytes == decoded.nbytes
    difference = np.abs(decoded.astype(int) - picture)
    assert difference.max() == 0 if codec.name in LOSSLESS else difference.mean() < 3


def test_a_jpeg_rung_refuses_16_bits_with_the_codec_to_use_instead():
    with pytest.raises(Rejected, match="png or zstd"):
        MADE["jpeg"].encode(scene((96, 160), np.uint16), quality=80)


@pytest.mark.parametrize(
    "picture",
    [
        np.zeros((8, 8, 4), np.uint8),
        np.zeros((8, 8, 1), np.uint8),
        np.zeros((8, 8, 3), np.float32),
        np.zeros((8, 8), np.int16),
        np.zeros((8,), np.uint8),
        np.zeros((0, 8, 3), np.uint8),
    ],
    ids=lambda p: f"{p.dtype}{list(p.shape)}",
)
def test_what_is_no_picture_is_rejected(codec, picture):
    with pytest.raises(Rejected):
        encoded(codec, picture)


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ((80, 48), (80, 48)),
        ((320, 192), (160, 96)),
        ((320, 48), (160, 48)),
        ((1, 1), (1, 1)),
        (None, (160, 96)),
    ],
)
def test_a_picture_is_scaled_down_to_what_is_asked_and_never_up(codec, size, expected):
    data, encoding = encoded(codec, scene(), size=size)
    assert (encoding.width_px, encoding.height_px) == expected
    assert codec.decode(data, encoding, LIMITS).shape == (expected[1], expected[0], 3)


@pytest.mark.parametrize("name", LOSSLESS)
def test_a_scaled_picture_keeps_its_16_bits_and_travels_exactly(name):
    picture = scene((96, 160), np.uint16)
    half = MADE["zstd"].decode(*MADE["zstd"].encode(picture, quality=0, size=(80, 48)), LIMITS)
    again = MADE[name].decode(*MADE[name].encode(half, quality=0), LIMITS)
    assert again.dtype == np.uint16
    assert np.array_equal(again, half)


def test_a_picture_that_is_a_view_of_another_is_encoded_as_it_looks(codec):
    whole = scene((200, 330, 3))
    for view in (whole[3:99, 5:165], whole[::-2, ::2], whole[:, :, ::-1]):
        data, encoding = encoded(codec, view)
        assert encoded(codec, np.ascontiguousarray(view)) == (data, encoding)
        assert codec.decode(data, encoding, LIMITS).shape == view.shape


def test_encoding_leaves_the_picture_as_it_was(codec):
    picture = scene()
    before = picture.copy()
    picture.flags.writeable = False
    encoded(codec, picture, size=(80, 48))
    encoded(codec, picture)
    assert np.array_equal(picture, before)


def test_the_body_may_be_a_memoryview_into_a_larger_message(codec):
    data, encoding = encoded(codec, scene())
    inside = memoryview(b"head" + data + b"tail")[4:-4]
    assert np.array_equal(codec.decode(inside, encoding, LIMITS), codec.decode(data, encoding, LIMITS))


@pytest.mark.parametrize(
    "lie",
    [
        {"width_px": 161},
        {"height_px": 95},
        {"width_px": 96, "height_px": 161},
        {"channels": 1},
        {"channels": 4},
        {"bits": 16},
        {"bits": 12},
        {"body_bytes": 7},
        {"codec": "webp"},
        {"width_px": 0},
    ],
    ids=str,
)
def test_a_payload_unlike_its_encoding_is_rejected(codec, lie):
    data, encoding = encoded(codec, scene())
    with pytest.raises(Rejected):
        codec.decode(data, replace(encoding, **lie), LIMITS)


def test_a_picture_over_the_limit_of_pixels_is_rejected_whatever_its_bytes(codec):
    data, encoding = encoded(codec, scene())
    with pytest.raises(Rejected, match="exceed the limit"):
        codec.decode(data, encoding, PictureLimits(pixels=160 * 96 - 1, decoded_bytes=1 << 30))


def test_a_picture_over_the_limit_of_bytes_is_rejected_whatever_its_pixels(codec):
    data, encoding = encoded(codec, scene())
    with pytest.raises(Rejected, match="exceed the limit"):
        codec.decode(data, encoding, PictureLimits(pixels=1 << 30, decoded_bytes=encoding.decoded_bytes - 1))


def test_every_truncation_is_rejected(codec):
    data, encoding = encoded(codec, scene((16, 32, 3)))
    open_ended = replace(encoding, body_bytes=0)
    for length in range(len(data)):
        with pytest.raises(Rejected):
            codec.decode(data[:length], open_ended, LIMITS)


def again_and_again(data: bytes, times: int) -> bytes:
    """The same JPEG whose one scan of all components is announced `times` more, each empty."""
    at = data.index(b"\xff\xda")
    header = data[at : at + 2 + int.from_bytes(data[at + 2 : at + 4], "big")]
    return data[:-2] + header * times + data[-2:]


@pytest.mark.parametrize("times", [3, 1_000_000])
def test_a_small_jpeg_that_goes_over_its_picture_again_and_again_is_rejected_before_the_decoder_sees_it(
    times, monkeypatch
):
    """F10"""
    codec = MADE["jpeg"]
    data, encoding = encoded(codec, scene())
    assert len(codec.decode(data, encoding, LIMITS)) == encoding.height_px
    bomb = again_and_again(data, times)

    def refuse(*_):
        raise AssertionError("the decoder was called")

    monkeypatch.setattr("cv2.imdecode", refuse)
    with pytest.raises(Rejected, match=f"3 components in {times + 1} scans"):
        codec.decode(bomb, replace(encoding, body_bytes=len(bomb)), LIMITS)


@pytest.mark.parametrize("filler", [b"\xff", b"\xff\xfe\x00\x02"], ids=["fill bytes", "empty comments"])
def test_a_jpeg_whose_header_lies_behind_millions_of_bytes_of_nothing_is_rejected(filler):
    """F10"""
    codec = MADE["jpeg"]
    data, encoding = encoded(codec, scene())
    slow = data[:2] + filler * 1_000_000 + data[2:]
    with pytest.raises(Rejected, match="too many segments before it"):
        codec.decode(slow, replace(encoding, body_bytes=len(slow)), LIMITS)


def test_what_follows_the_payload_is_rejected(codec):
    data, encoding = encoded(codec, scene((16, 32, 3)))
    with pytest.raises(Rejected):
        codec.decode(data + b"more", replace(encoding, body_bytes=0), LIMITS)


@pytest.mark.parametrize("name", LOSSLESS)
def test_a_single_flipped_bit_anywhere_never_passes_as_the_picture(name):
    codec, picture = MADE[name], scene((16, 32), np.uint16)
    data, encoding = codec.encode(picture, quality=0)
    for at in range(len(data)):
        bad = bytearray(data)
        bad[at] ^= 0x10
        try:
            decoded = codec.decode(bytes(bad), encoding, LIMITS)
        except Rejected:
            continue
        assert np.array_equal(decoded, picture), f"byte {at} was changed and another picture came out"


@pytest.mark.parametrize("data", [b"", b"\x00" * 64, b"GIF89a" + bytes(40), b"\xff\xd8\xff\xd9"], ids=repr)
def test_what_is_no_payload_of_the_codec_is_rejected(codec, data):
    encoding = Encoding(codec=codec.name, quality=80, width_px=4, height_px=4)
    with pytest.raises(Rejected):
        codec.decode(data, encoding, LIMITS)


def test_a_payload_of_another_codec_is_rejected(codec):
    for other in MADE.values():
        if other.name != codec.name:
            data, encoding = encoded(other, scene())
            with pytest.raises(Rejected):
                codec.decode(data, replace(encoding, codec=codec.name), LIMITS)


def test_a_codec_is_made_as_its_rung_says():
    tile = np.random.default_rng(2).integers(0, 40, (12, 20), np.uint16)
    tiles = np.tile(tile, (8, 8))
    for name, levels in (("png", (1, 9)), ("zstd", (1, 19))):
        quick, small = (
            CODECS[name]
            .resolve()
            .from_config(RungConfig.model_validate({"codec": name, "level": level}))
            .encode(tiles, quality=0)[0]
            for level in levels
        )
        assert len(small) < len(quick)
    assert CODECS["jpeg"].resolve().from_config(RungConfig()).name == "jpeg"


def test_a_rung_has_the_documented_default_of_its_codec_and_nothing_of_another():
    # F24
    documented = RungConfig.model_json_schema()["properties"]
    for name in MADE:
        rung = RungConfig.model_validate({"codec": name})
        lossless = name in LOSSLESS
        assert rung.quality == (None if lossless else documented["quality"]["default"])
        assert rung.level == (documented["level"]["default"] if lossless else None)
