"""Pictures come evenly over all clips, and a clip that holds none is named."""

from itertools import pairwise
from pathlib import Path

import cv2
import numpy as np
import pytest

from nearfar.calibrate.clips import every_nth, spread_over
from pipelines.errors import ConfigError
from tests.support.calibrated import write_clip


def folder_of(path: Path, count: int) -> Path:
    path.mkdir()
    for number in range(count):
        cv2.imwrite(str(path / f"{number}.png"), np.full((8, 8), number, np.uint8))
    return path


def values(clips) -> list[int]:
    return [int(picture.flat[0]) for picture in clips.pictures()]


def test_pictures_are_spread_over_all_clips(tmp_path):
    clips = spread_over([folder_of(tmp_path / "a", 10), folder_of(tmp_path / "b", 20)], frames=6)
    assert values(clips) == [0, 5, 0, 5, 10, 15]
    assert clips.expected == 6


def test_a_short_clip_gives_every_picture_once(tmp_path):
    clips = spread_over([folder_of(tmp_path / "a", 3)], frames=200)
    assert values(clips) == [0, 1, 2]
    assert clips.expected == 3


def test_no_more_come_than_were_asked_for(tmp_path):
    clips = spread_over([folder_of(tmp_path / "a", 7), folder_of(tmp_path / "b", 7)], frames=4)
    assert len(values(clips)) == 4


@pytest.mark.parametrize("frames", [1, 3, 6, 7, 10, 11])
def test_as_many_come_as_were_asked_for_as_far_apart_as_can_be(tmp_path, frames):
    seen = values(spread_over([folder_of(tmp_path / "a", 11)], frames=frames))
    assert len(seen) == frames
    assert seen[0] == 0
    gaps = [later - earlier for earlier, later in pairwise([*seen, 11])]
    assert max(gaps) - min(gaps) <= 1


def test_every_nth_of_each_clip_comes(tmp_path):
    clips = every_nth([folder_of(tmp_path / "a", 5), folder_of(tmp_path / "b", 4)], every=2)
    assert values(clips) == [0, 2, 4, 0, 2]
    assert clips.expected == 5


def test_a_video_is_counted_and_read(tmp_path):
    clips = spread_over([write_clip(tmp_path / "clip.avi", frames=12)], frames=4)
    assert clips.expected == 4
    assert [picture.shape for picture in clips.pictures()] == [(128, 256, 3)] * 4


def test_a_clip_that_is_not_there_is_said_at_once(tmp_path):
    with pytest.raises(
        ConfigError, match=r"no such clip: .*nowhere\.mp4; --clip takes a video file or a folder"
    ):
        spread_over([tmp_path / "nowhere.mp4"], frames=5)


def test_a_file_that_is_no_video_is_said(tmp_path):
    path = tmp_path / "words.mp4"
    path.write_text("no video")
    clips = spread_over([path], frames=5)
    assert clips.expected == 0
    with pytest.raises(ConfigError, match="no video this build of OpenCV can read"):
        list(clips.pictures())


def test_a_folder_without_pictures_is_said(tmp_path):
    clips = every_nth([folder_of(tmp_path / "a", 0)], every=1)
    with pytest.raises(ConfigError, match="holds no picture"):
        list(clips.pictures())
