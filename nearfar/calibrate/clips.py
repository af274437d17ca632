"""The pictures a calibration looks at: so many, evenly over one or several clips.

A clip is a video file or a folder of pictures, read by the sources an agent reads them with. Pictures come in the
order of the clips; each is an array of its own.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2

from edge.capture.base import Source
from edge.capture.file import FileSource
from edge.capture.images import SUFFIXES, ImagesSource
from pipelines.errors import ConfigError, Fatal
from pipelines.frame import Picture

_ANY_FPS = 1.0  # of a clip that names none: nothing here is played


@dataclass(frozen=True, slots=True)
class Clip:
    """`frames`: how many the clip says it holds, which some files get wrong; 0 = it does not say."""

    path: Path
    frames: int

    def pictures(self, *, wanted: Callable[[int], bool]) -> Iterator[Picture]:
        """Those whose number, from 0, is wanted. Raises ConfigError when it holds none."""
        source = _source(self.path)
        try:
            source.open()
            number = 0
            while (picture := source.read()) is not None:
                if wanted(number):
                    yield picture
                number += 1
        except Fatal as error:
            raise ConfigError(str(error)) from error
        finally:
            source.close()
        if not number:
            raise ConfigError(f"{self.path} holds no picture that can be decoded; give another --clip")


@dataclass(frozen=True, slots=True, kw_only=True)
class Clips:
    """`expected`: how many pictures will come, by what the clips say; 0 = not known. Either `every` manieth of each clip
    is taken, or `frames` of the pictures all clips hold together."""

    clips: tuple[Clip, ...]
    expected: int
    every: int | None = None
    frames: int = 0

    def pictures(self) -> Iterator[Picture]:
        """Raises ConfigError for a clip that cannot be read or holds no picture."""
        given = before = 0
        for clip in self.clips:
            for picture in clip.pictures(wanted=self._wanted(before)):
                if self.every is None and given == self.frames:
                    return
                yield picture
                given += 1
            before += clip.frames

    def _wanted(self, before: int) -> Callable[[int], bool]:
        if self.every is not None:
            every = self.every
            return lambda number: number % every == 0
        there, frames = sum(clip.frames for clip in self.clips), self.frames
        if any(not clip.frames for clip in self.clips) or there <= frames:
            return lambda _: True

        def wanted(number: int) -> bool:
            at = before + number
            return at * frames // there != (at - 1) * frames // there

        return wanted


def spread_over(paths: Sequence[Path], *, frames: int) -> Clips:
    """At most `frames` pictures, evenly over all clips together; the first ones of clips that do not say how many they
    hold. Raises ConfigError for a clip that is not there or cannot be read."""
    clips = tuple(map(_clip, paths))
    known = all(clip.frames for clip in clips)
    expected = min(frames, sum(clip.frames for clip in clips)) if known else 0
    return Clips(clips=clips, expected=expected, frames=frames)


def every_nth(paths: Sequence[Path], *, every: int) -> Clips:
    """Raises ConfigError as `spread_over`."""
    clips = tuple(map(_clip, paths))
    known = all(clip.frames for clip in clips)
    expected = sum(-(-clip.frames // every) for clip in clips) if known else 0
    return Clips(clips=clips, expected=expected, every=every)


def _clip(path: Path) -> Clip:
    if path.is_dir():
        return Clip(path, sum(1 for p in path.iterdir() if p.suffix.lower() in SUFFIXES and p.is_file()))
    if not path.is_file():
        raise ConfigError(f"no such clip: {path}; --clip takes a video file or a folder of pictures")
    video = cv2.VideoCapture(str(path), cv2.CAP_FFMPEG)
    try:
        # a still picture or a stream without an index says 0 or less, or nothing that is a number
        said = video.get(cv2.CAP_PROP_FRAME_COUNT) if video.isOpened() else 0.0
    finally:
        video.release()
    return Clip(path, int(said) if 0 < said < 1e9 else 0)


def _source(path: Path) -> Source:
    if path.is_dir():
        return ImagesSource(path=path, fps=_ANY_FPS)
    return FileSource(path=path, fps=_ANY_FPS)
