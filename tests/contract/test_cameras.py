"""What a connection to a camera promises, whatever the camera sends, appends or announces."""

import re
import time

import cv2
import numpy as np
import pytest

from edge.capture.camera import CameraSource
from pipelines.errors import Retryable
from tests.support import mjpeg

COUNT = 6


def next_of(source):
    picture = source.read()
    assert picture is not None
    return picture


def numbers_of(source):
    """Of all pictures until the end."""
    numbers = []
    while (picture := source.read()) is not None:
        numbers.append(mjpeg.number_of(picture))
        assert len(numbers) < 1000
    return numbers


def six_pictures(line):
    line.send(mjpeg.HEAD)
    line.pictures(range(COUNT), period_s=0.001)


def test_a_camera_whose_pictures_change_their_size_is_followed():
    def script(line):
        line.send(mjpeg.HEAD)
        line.pictures(range(3))
        line.pictures(range(3, 6), width=96, height=64)
        line.pictures(range(6, 9))

    with mjpeg.mjpeg(script) as server:
        source = CameraSource(url=server.url)
        source.open()
        shapes = [next_of(source).shape for _ in range(9)]
        source.close()
    assert shapes == [(48, 64, 3)] * 3 + [(64, 96, 3)] * 3 + [(48, 64, 3)] * 3


def test_what_is_no_whole_picture_is_skipped_and_the_next_one_is_given():
    """F26"""

    def script(line):
        line.send(mjpeg.HEAD)
        line.pictures(range(1, 4))
        line.send(b"\x00\xff\xd8\xff\xee\r\n" * 60)
        cut = mjpeg.jpeg(9)
        line.send(mjpeg.part(cut[: len(cut) // 2]))
        line.send(mjpeg.part(b"") + mjpeg.part(b"no picture"))
        line.pictures(range(4, 8))

    with mjpeg.mjpeg(script) as server:
        source = CameraSource(url=server.url)
        source.open()
        numbers = []
        while (given := source.read()) is not None:
            assert given.std() < 2
            numbers.append(mjpeg.number_of(given))
        source.close()
    assert numbers == list(range(1, 8))


@pytest.mark.parametrize("announced", [True, False], ids=["announced", "unannounced"])
def test_parts_are_found_whether_or_not_their_length_is_announced(announced):
    def script(line):
        line.send(mjpeg.HEAD.replace(mjpeg.BOUNDARY, b'"--' + mjpeg.BOUNDARY + b'"'))
        for number in range(COUNT):
            data = mjpeg.part(mjpeg.jpeg(number))
            line.send(data if announced else re.sub(rb"Content-Length.*\r\n", b"", data, count=1))
        line.send(b"--" + mjpeg.BOUNDARY + b"--\r\n")

    with mjpeg.mjpeg(script) as server:
        source = CameraSource(url=server.url)
        source.open()
        assert numbers_of(source) == list(range(COUNT))
        source.close()


def trailing(line):
    """Some cameras append what only their own viewer understands."""
    line.send(mjpeg.HEAD)
    for number in range(COUNT):
        line.send(mjpeg.part(mjpeg.jpeg(number) + b"\x00\x01serial=7;motion=0\xff\xd8"))


def test_bytes_behind_the_end_of_a_picture_are_cut_off_and_the_picture_is_given():
    with mjpeg.mjpeg(trailing) as server:
        source = CameraSource(url=server.url)
        source.open()
        assert numbers_of(source) == list(range(COUNT))
        source.close()


def broken_pictures(line):
    cut = mjpeg.jpeg(9)
    while True:
        line.send(mjpeg.part(cut[: len(cut) // 2]))
        line.wait(0.005)


def no_boundary(line):
    while True:
        line.send(b"nothing like a part\n" * 50)
        line.wait(0.005)


def endless_part(line):
    line.send(mjpeg.part(b"")[:-2].replace(b"Content-Length: 0", b"Content-Length: 30000000"))
    while True:
        line.send(b"x")
        line.wait(0.005)


ENDLESS = pytest.mark.parametrize("play", [broken_pictures, no_boundary, endless_part])


def took_s(call):
    begun = time.monotonic()
    call()
    return time.monotonic() - begun


@ENDLESS
def test_a_camera_that_never_sends_a_whole_picture_is_given_up_when_the_time_to_open_is_over(play):
    def script(line):
        line.send(mjpeg.HEAD)
        play(line)

    def opened():
        with pytest.raises(
            Retryable,
            match=r"the camera answers, but (sends no|\d+ parts came, none was a) whole JPEG picture",
        ):
            source.open()

    with mjpeg.mjpeg(script) as server:
        source = CameraSource(url=server.url, open_us=400_000)
        assert took_s(opened) >= 0.2


@ENDLESS
def test_a_camera_that_stops_sending_whole_pictures_has_ended_after_the_silence_it_may_keep(play):
    def script(line):
        line.send(mjpeg.HEAD)
        line.pictures(range(1))
        play(line)

    with mjpeg.mjpeg(script) as server:
        source = CameraSource(url=server.url, read_us=100_000)
        source.open()
        next_of(source)
        assert took_s(lambda: numbers_of(source)) >= 0.1
        source.close()


@ENDLESS
def test_a_read_nobody_waits_for_any_more_ends_with_the_next_bytes(play):
    def script(line):
        line.send(mjpeg.HEAD)
        line.pictures(range(1))
        play(line)

    with mjpeg.mjpeg(script) as server:
        source = CameraSource(url=server.url, read_us=60_000_000)
        source.open()
        next_of(source)
        source.let_go()
        assert source.read() is None
        source.close()


def test_a_camera_that_stamps_its_pictures_has_times():
    def script(line):
        line.send(mjpeg.HEAD)
        for number in range(3):
            stamp = b"\r\nX-Timestamp: 1700000000.%06d\r\n" % (number * 40_000)
            line.send(mjpeg.part(mjpeg.jpeg(number)).replace(b"\r\n", stamp, 1))

    with mjpeg.mjpeg(script) as server:
        source = CameraSource(url=server.url)
        source.open()
        times = []
        while source.read() is not None:
            times.append(source.pts_us)
        source.close()
    assert times == [1_700_000_000_000_000 + n * 40_000 for n in range(3)]


def test_a_video_over_http_that_is_no_mjpeg_is_read_too(tmp_path):
    clip = tmp_path / "clip.avi"
    writer = cv2.VideoWriter(str(clip), cv2.VideoWriter.fourcc(*"MJPG"), 20.0, (64, 48))
    for value in range(6):
        writer.write(np.full((48, 64, 3), 40 * value, np.uint8))
    writer.release()
    data = clip.read_bytes()

    def script(line):
        line.send(
            b"HTTP/1.1 200 OK\r\nContent-Type: video/avi\r\nContent-Length: %d\r\n\r\n" % len(data) + data
        )

    with mjpeg.mjpeg(script) as server:
        source = CameraSource(url=server.url)
        source.open()
        assert next_of(source).shape == (48, 64, 3)
        source.close()
