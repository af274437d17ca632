"""What detectors see is uint8 BGR, made in one place from whatever a camera gives."""

import numpy as np
import pytest

from pipelines.detectors.synthetic import SyntheticDetector
from pipelines.errors import Rejected
from pipelines.pictures import contrast, for_detector, stretched


def test_a_colour_picture_of_8_bits_is_handed_on_as_it_is():
    picture = np.zeros((4, 6, 3), np.uint8)
    assert for_detector(picture) is picture


def test_a_gray_picture_becomes_three_equal_channels():
    gray = np.arange(24, dtype=np.uint8).reshape(4, 6)
    seen = for_detector(gray)
    assert seen.shape == (4, 6, 3)
    assert seen.dtype == np.uint8
    assert all(np.array_equal(seen[:, :, c], gray) for c in range(3))


@pytest.mark.parametrize("shape", [(50, 80), (50, 80, 3)])
def test_16_bits_are_stretched_between_the_1st_and_the_99th_percentile(shape):
    dice = np.random.default_rng(0)
    warm = dice.integers(29_000, 30_000, shape, np.uint16)
    seen = for_detector(warm)
    assert seen.shape == (50, 80, 3)
    assert seen.dtype == np.uint8
    assert np.percentile(seen, 1) <= 1
    assert np.percentile(seen, 99) >= 254


def test_what_is_warmer_is_never_darker():
    warm = np.random.default_rng(0).integers(29_000, 30_000, (50, 80), np.uint16)
    seen = for_detector(warm)[:, :, 0].reshape(-1).astype(int)
    assert (np.diff(seen[np.argsort(warm.reshape(-1))]) >= 0).all()


def test_one_hot_pixel_does_not_take_the_contrast_of_the_rest():
    warm = np.random.default_rng(0).integers(29_000, 30_000, (100, 100), np.uint16)
    hot = warm.copy()
    hot[3, 3] = 65_535
    hot[4, 4] = 0
    seen, alone = for_detector(hot), for_detector(warm)
    assert np.abs(seen.astype(int) - alone).mean() < 1
    assert (seen[3, 3] == 255).all()
    assert (seen[4, 4] == 0).all()


@pytest.mark.parametrize("value", [0, 1, 30_000, 65_535])
def test_a_flat_picture_of_16_bits_is_black_not_an_error(value):
    assert (for_detector(np.full((8, 8), value, np.uint16)) == 0).all()


def test_stretching_is_linear_between_black_and_white_and_cut_beyond():
    steps = np.array([[0, 100, 150, 200, 65_535]], np.uint16)
    assert stretched(steps, black=100, white=200).tolist() == [[0, 0, 128, 255, 255]]


def test_the_contrast_of_a_large_picture_is_that_of_an_even_sample_of_it():
    ramp = np.broadcast_to(np.arange(2_000, dtype=np.uint16), (1_500, 2_000))
    black, white = contrast(ramp)
    assert abs(black - 20) < 20
    assert abs(white - 1_980) < 20


@pytest.mark.parametrize(
    "picture",
    [
        np.zeros((4, 4, 4), np.uint8),
        np.zeros((4, 4), np.float32),
        np.zeros((0, 4, 3), np.uint8),
        np.zeros(4, np.uint8),
    ],
    ids=lambda p: f"{p.dtype}{list(p.shape)}",
)
def test_what_is_no_picture_is_rejected(picture):
    with pytest.raises(Rejected):
        for_detector(picture)


def test_a_synthetic_detector_takes_what_for_detector_makes():
    thermal = np.asarray(np.add.outer(3 * np.arange(96), 29_000 + 4 * np.arange(128)), np.uint16)
    assert len(SyntheticDetector(delay_us=0).detect(for_detector(thermal))) == 1
