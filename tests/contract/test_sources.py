"""What every source promises, whatever it reads."""

from contextlib import ExitStack
from itertools import pairwise
from types import SimpleNamespace

import cv2
import numpy as np
import pytest

from edge.capture.camera import CameraSource
from edge.capture.file import FileSource
from edge.capture.images import ImagesSource
from edge.capture.kinds import SOURCES, CameraSourceConfig
from edge.capture.synthetic import SyntheticSource
from pipelines.errors import ConfigError, Fatal
from tests.support import mjpeg

WIDTH, HEIGHT, FPS, COUNT = 64, 48, 20.0, 6
NEEDS_A_DEVICE = {"usb"}  # tested in test_cameras as far as it goes without one
KINDS = [kind.name for kind in SOURCES if kind.name not in NEEDS_A_DEVICE]


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


def six_pictures(line):
    line.send(mjpeg.HEAD)
    line.pictures(range(COUNT), period_s=0.001)


def build(kind, clip, stack):
    """A source made from a configuration as the YAML gives it."""
    if kind == "file":
        return FileSource.from_config(SimpleNamespace(path=clip, loop=False, fps=None))
    if kind == "images":
        folder = clip.parent / "six"
        folder.mkdir(exist_ok=True)
        for i in range(COUNT):
            assert cv2.imwrite(str(folder / f"{i}.png"), np.full((HEIGHT, WIDTH, 3), 40 * i, np.uint8))
        return ImagesSource.from_config(SimpleNamespace(path=folder, loop=False, fps=FPS))
    if kind == "camera":
        server = stack.enter_context(mjpeg.mjpeg(six_pictures))
        return SOURCES.build(CameraSourceConfig(kind="camera", url=server.url))
    if kind == "synthetic":
        return SyntheticSource.from_config(
            SimpleNamespace(size=(WIDTH, HEIGHT), fps=FPS, count=COUNT, seed=7)
        )
    raise AssertionError(f"a new kind of source, {kind}, keeps no promise yet: build it here")


@pytest.fixture(params=KINDS)
def source(request, clip):
    with ExitStack() as stack:
        made = build(request.param, clip, stack)
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
    assert (shape.width_px, shape.height_px) == (WIDTH, HEIGHT)
    # A camera that sends pictures over HTTP does not say how many a second.
    assert shape.fps == (0 if isinstance(source, CameraSource) else FPS)
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


def test_a_folder_is_no_clip_and_the_kind_that_reads_it_is_named(tmp_path):
    with pytest.raises(ConfigError, match="it is a folder; for pictures use kind: images"):
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


# -- a folder of pictures -----------------------------------------------------------------------------------


def picture(shape, kind, value):
    return np.full(shape, value, kind)


def test_pictures_of_a_folder_come_in_the_order_a_person_would_list_them(tmp_path):
    for name, value in [("cam10.png", 30), ("Cam2.png", 20), ("cam1.png", 10), ("notes.txt", 0)]:
        if name.endswith("png"):
            assert cv2.imwrite(str(tmp_path / name), picture((4, 4), np.uint8, value))
        else:
            (tmp_path / name).write_text("no picture")
    source = ImagesSource(path=tmp_path, fps=5)
    source.open()
    given = [int(next_of(source)[0, 0]) for _ in range(3)]
    assert given == [10, 20, 30]
    assert source.read() is None


def test_each_picture_of_a_folder_keeps_its_size_and_depth_and_only_alpha_is_dropped(tmp_path):
    files = [
        ("1.jpg", picture((8, 10, 3), np.uint8, 100), (8, 10, 3), np.uint8),
        ("2.png", picture((6, 4), np.uint16, 40_000), (6, 4), np.uint16),
        ("3.png", picture((6, 5), np.uint8, 7), (6, 5), np.uint8),
        ("4.png", picture((3, 5, 4), np.uint8, 9), (3, 5, 3), np.uint8),
        ("5.tif", picture((3, 7, 3), np.uint16, 999), (3, 7, 3), np.uint16),
        ("6.pgm", picture((2, 9), np.uint16, 512), (2, 9), np.uint16),
    ]
    for name, pixels, _, _ in files:
        assert cv2.imwrite(str(tmp_path / name), pixels)
    source = ImagesSource(path=tmp_path, fps=5)
    shape = source.open()
    assert (shape.width_px, shape.height_px) == (10, 8)
    for name, pixels, expected, kind in files:
        given = next_of(source)
        assert given.shape == expected, name
        assert given.dtype == kind, name
        assert abs(int(given.flat[0]) - int(pixels.flat[0])) <= 1, name


def test_a_looping_folder_never_ends(tmp_path):
    for value in (10, 20):
        assert cv2.imwrite(str(tmp_path / f"{value}.png"), picture((4, 4), np.uint8, value))
    source = ImagesSource(path=tmp_path, fps=5, loop=True)
    source.open()
    assert [int(next_of(source)[0, 0]) for _ in range(5)] == [10, 20, 10, 20, 10]


@pytest.mark.parametrize(
    ("prepare", "words"),
    [
        (lambda folder: None, "holds no picture"),
        (lambda folder: (folder / "1.png").write_bytes(b"no picture at all"), "1.png.*no picture"),
        (lambda folder: (folder / "1.png").write_bytes(b""), "1.png.*no picture"),
        (lambda folder: cv2.imwrite(str(folder / "1.tif"), np.ones((4, 4), np.float32)), "float32 pixels"),
    ],
    ids=["empty", "broken", "hollow", "depth"],
)
def test_a_folder_without_usable_pictures_is_refused_with_words(tmp_path, prepare, words):
    prepare(tmp_path)
    with pytest.raises(ConfigError, match=words):
        ImagesSource(path=tmp_path, fps=5).open()


def test_a_folder_that_is_none_is_refused_with_words(tmp_path, clip):
    with pytest.raises(ConfigError, match="cannot read the folder"):
        ImagesSource(path=tmp_path / "gone", fps=5).open()
    with pytest.raises(ConfigError, match="is a file, not a folder"):
        ImagesSource(path=clip, fps=5).open()


def test_a_broken_picture_in_the_middle_of_a_folder_is_named(tmp_path):
    assert cv2.imwrite(str(tmp_path / "1.png"), picture((4, 4), np.uint8, 1))
    (tmp_path / "2.png").write_bytes(b"broken")
    source = ImagesSource(path=tmp_path, fps=5)
    source.open()
    next_of(source)
    with pytest.raises(Fatal, match=r"2\.png"):
        source.read()
