"""Pictures in the memory front and engine share: of any numbers, none too large, and only looked at by the engine."""

import os

import numpy as np
import pytest

from cloud.engine.memory import SharedMemory
from cloud.engine.messages import MalformedMessageError, Placed, pack_places, read_places
from pipelines.errors import Rejected

NUMBERS = [np.uint8, np.uint16, np.int16, np.int32, np.int64, np.float16, np.float32, np.float64, np.bool_]


@pytest.fixture
def memory():
    front, file = SharedMemory.create(1 << 16)
    engine = SharedMemory(file, 1 << 16, writable=False)
    os.close(file)
    yield front, engine
    front.close()
    engine.close()


@pytest.mark.parametrize("numbers", NUMBERS, ids=lambda kind: np.dtype(kind).name)
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("shape", [(5, 7, 3), (5, 7), (0, 7, 3), (1,), (2, 3, 4, 5)], ids=str)
def test_pictures_of_all_numbers_and_shapes_lie_there_as_they_are(memory, numbers, order, shape):
    front, engine = memory
    kind = np.dtype(numbers).newbyteorder(order)
    picture = np.random.default_rng(1).integers(0, 2, shape).astype(kind)
    (place,) = read_places(pack_places(front.put([picture])))
    seen = engine.look(place)
    assert seen.dtype == np.dtype(numbers)
    assert seen.shape == shape
    assert np.array_equal(seen, picture)


def test_a_view_and_a_reversed_picture_lie_there_as_they_look(memory):
    front, engine = memory
    around = np.random.default_rng(1).integers(0, 255, (40, 60, 3), np.uint8)
    for picture in (around[3:20, ::2], around[::-1, :, ::-1], around.transpose(1, 0, 2)):
        (place,) = front.put([picture])
        assert np.array_equal(engine.look(place), picture)


def test_several_pictures_lie_side_by_side_and_the_engine_can_only_look(memory):
    front, engine = memory
    pictures = [np.full((4, 3, 3), i, np.uint8) for i in range(5)]
    seen = [engine.look(place) for place in read_places(pack_places(front.put(pictures)))]
    assert all(np.array_equal(a, b) for a, b in zip(seen, pictures, strict=True))
    with pytest.raises(ValueError, match="read-only"):
        seen[0][:] = 1
    del seen


def test_a_picture_that_is_too_large_is_rejected_with_the_key_to_raise(memory):
    front, _ = memory
    with pytest.raises(Rejected, match=r"limits\.pixels"):
        front.put([np.zeros((1 << 16) + 1, np.uint8)])
    assert len(front.put([np.zeros(1 << 16, np.uint8)])) == 1


def test_as_many_pictures_as_fit_are_told(memory):
    front, _ = memory
    quarter = np.zeros(1 << 14, np.uint8)
    assert front.fits([quarter] * 9) == 4
    assert front.fits([quarter[:-1]] * 9) == 4
    assert front.fits([]) == 0
    with pytest.raises(Rejected):
        front.put([quarter] * 5)


@pytest.mark.parametrize(
    "picture",
    [
        np.array([[None]], object),
        np.zeros((2, 2), "S3"),
        np.zeros((2, 2), [("a", "u1")]),
        np.zeros((2, 2), "M8[s]"),
        np.zeros((1,) * 5, np.uint8),
    ],
    ids=lambda p: f"{p.dtype}-{p.ndim}d",
)
def test_what_are_no_numbers_never_crosses(memory, picture):
    with pytest.raises(Rejected):
        memory[0].put([picture])


@pytest.mark.parametrize(
    "place",
    [
        Placed("|u1", (1 << 16,), 1),
        Placed("|u1", (1,), 1 << 16),
        Placed("<f8", ((1 << 13) + 1,), 0),
        Placed("|u1", (0xFFFFFFFF,) * 4, 0),
    ],
    ids=str,
)
def test_a_picture_that_would_lie_outside_is_not_looked_at(memory, place):
    with pytest.raises(MalformedMessageError):
        memory[1].look(place)
