"""What every source promises, whatever it reads."""

from itertools import pairwise
from types import SimpleNamespace

import cv2
import numpy as np
import pytest

from edge.capture.file import FileSource
from edge.capture.synthetic import SyntheticSource
from pipelines.errors import ConfigError, Fatal

WIDTH, HEIGHT, FPS, COUNT = 64, 48, 20.0, 6
KINDS = ["file", "synthetic"]


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    """Six pictures, each brighter than the last."""
    path = tmp_path_factory.mktemp("clips") / "clip.avi"
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), FPS, (WIDTH, HEIGHT))
    assert writer.isOpened()
    for i in range(COUNT):
        writer.write(np.full((HEIGHT, WIDTH, 3), 40 * i, np.uint8))
    writer.release()
    return path


def build(kind, clip):
    """A source made from a configuration as the YAML gives it."""
    if kind == "file":
        return FileSource.from_config(SimpleNamespace(path=clip, loop=False, fps=None))
    return SyntheticSource.from_config(SimpleNamespace(size=(WIDTH, HEIGHT), fps=FPS, count=COUNT, seed=7))


@pytest.fixture(params=KINDS)
def source(request, clip):
    made = build(request.param, clip)
    yield made
    made.close()


def next_of(source):
    picture = source.read()
    assert picture is not None
    return picture


def read_all(source):
    pictures = []
    while (picture := source.read()) is not None:
        pictures.append(picture)
        assert len(pictures) <= COUNT
    return pictures


def test_the_shape_is_that_of_the_pictures(source):
    shape = source.open()
    assert (shape.width_px, shape.height_px, shape.fps) == (WIDTH, HEIGHT, FPS)
    for picture in read_all(source):
        assert picture.shape == (HEIGHT, WIDTH, 3)
        assert picture.dtype == np.uint8


def test_every_picture_is_given_once_and_the_end_stays_the_end(source):
    source.open()
    assert len(read_all(source)) == COUNT
    assert source.read() is None
    assert source.read() is None


def test_each_picture_is_an_array_of_its_own(source):
    source.open()
    pictures = read_all(source)
    copies = [p.copy() for p in pictures]
    assert not any(np.array_equal(a, b) for a, b in pairwise(copies))
    pictures[0][:] = 255
    assert all(np.array_equal(p, c) for p, c in zip(pictures[1:], copies[1:], strict=True))


def test_opened_again_it_gives_the_same_pictures_from_the_start(source):
    source.open()
    before = read_all(source)
    source.close()
    source.open()
    after = read_all(source)
    assert len(after) == COUNT
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))


def test_closing_twice_or_unopened_is_harmless(source):
    source.close()
    source.open()
    source.close()
    source.close()


def test_reading_what_is_not_open_is_an_error_with_words(source):
    with pytest.raises(Fatal, match="before it was opened"):
        source.read()


def test_a_looping_clip_never_ends_and_starts_over_exactly(clip):
    source = FileSource(path=clip, loop=True)
    source.open()
    means = [round(next_of(source).mean() / 40) for _ in range(3 * COUNT)]
    source.close()
    assert means == list(range(COUNT)) * 3


def test_the_rate_of_a_clip_can_be_overridden(clip):
    source = FileSource(path=clip, fps=5.0)
    assert source.open().fps == 5.0
    source.close()


def test_a_missing_clip_is_refused_with_its_path(tmp_path):
    with pytest.raises(ConfigError, match=r"gone\.mp4.*no such file"):
        FileSource(path=tmp_path / "gone.mp4").open()


def test_a_directory_is_refused_as_one(tmp_path):
    with pytest.raises(ConfigError, match="is a directory"):
        FileSource(path=tmp_path).open()


@pytest.mark.parametrize("content", [b"", b"this is a letter, not a film\n" * 50])
def test_a_file_that_is_no_video_is_refused_with_words(tmp_path, content):
    path = tmp_path / "letter.mp4"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="no video"):
        FileSource(path=path).open()


def test_an_endless_synthetic_source_goes_on_and_its_seed_decides():
    def pictures(seed):
        source = SyntheticSource(size=(WIDTH, HEIGHT), fps=FPS, seed=seed)
        source.open()
        given = [next_of(source) for _ in range(50)]
        source.close()
        return np.stack(given)

    assert np.array_equal(pictures(1), pictures(1))
    assert not np.array_equal(pictures(1), pictures(2))


@pytest.mark.parametrize("size", [(1, 1), (7, 3), (640, 360)])
def test_a_synthetic_source_gives_pictures_of_any_size(size):
    source = SyntheticSource(size=size, fps=FPS, count=200)
    source.open()
    for _ in range(200):
        assert next_of(source).shape == (size[1], size[0], 3)
    source.close()
