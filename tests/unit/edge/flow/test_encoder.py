"""The codec pool: every payload is made by the codec, quality and size of the rung it was ordered at."""

import queue
from collections.abc import Iterator

import numpy as np
import pytest

from edge.flow.encoder import Encoded, Encoder
from pipelines.codecs.jpeg import JpegCodec
from pipelines.codecs.png import PngCodec
from pipelines.codecs.zstd import ZstdCodec
from pipelines.frame import Picture
from tests.support.workers import clock_us

PICTURE: Picture = np.full((48, 64, 3), 90, np.uint8)
WITHIN_S = 10.0


class Pool:
    """An encoder with a ladder of three codecs, and what it reported."""

    def __init__(self) -> None:
        self.done: queue.SimpleQueue[Encoded] = queue.SimpleQueue()
        self.encoder = Encoder([JpegCodec(), ZstdCodec(), PngCodec()], done=self.done.put, clock_us=clock_us)
        self.encoder.start()

    def encoded(self, rung: int, *, quality: int, picture: Picture = PICTURE) -> Encoded:
        self.encoder.submit(("door", 1), picture, rung=rung, quality=quality, size=(32, 24))
        return self.done.get(timeout=WITHIN_S)


@pytest.fixture
def pool() -> Iterator[Pool]:
    made = Pool()
    yield made
    made.encoder.close()


@pytest.mark.parametrize(
    ("rung", "quality", "codec"), [(0, 35, "jpeg"), (1, 0, "zstd"), (2, 0, "png"), (0, 90, "jpeg")]
)
def test_a_payload_says_the_codec_and_quality_of_the_rung_it_was_ordered_at(
    pool: Pool, rung: int, quality: int, codec: str
) -> None:
    encoded = pool.encoded(rung, quality=quality)
    assert encoded.encoding is not None
    assert encoded.data is not None
    assert (encoded.rung, encoded.encoding.codec, encoded.encoding.quality) == (rung, codec, quality)
    assert (encoded.encoding.width_px, encoded.encoding.height_px) == (32, 24)
    assert encoded.encoding.body_bytes == len(encoded.data)


def test_a_rung_that_cannot_carry_a_picture_says_so_and_the_others_still_can(pool: Pool) -> None:
    deep: Picture = np.full((48, 64), 30_000, np.uint16)
    failed = pool.encoded(0, quality=50, picture=deep)
    assert failed.data is None
    assert "8 bits" in failed.failed
    assert pool.encoded(1, quality=0, picture=deep).data is not None
