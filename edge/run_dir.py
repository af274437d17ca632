"""The run directory: `frames.jsonl` with one line per captured frame, `link.jsonl` with the link over time,
`worst/` with pictures of the worst frames, and `summary.json`.

Writing happens on a thread of its own behind a bounded inbox: callers never block, and a line that did not
fit is counted in `lost`. A frame not answered far may still get a late far result, so its line is held
back until it is settled, `late_window_us` has passed or the run ends; every line is written once.
"""

import json
import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from edge.frame_lines import FrameLine, answer_line, gated_line, shed_line
from edge.inbox import Inbox
from edge.json_lines import JsonLines
from edge.link_log import LinkSight
from edge.worst import WorstPictures
from pipelines.errors import ConfigError, Rejected
from pipelines.frame import Frame, FrameId, Picture
from pipelines.result import Answer, AnsweredBy, ShedReason

log = logging.getLogger(__name__)

LATE_WINDOW_US = 2_000_000
_INBOX_LIMIT = 8192
_LOOK_EVERY_S = 0.1
_PICTURES_WAITING = 8  # references to whole pictures, so memory stays small whatever happens
_FILES = ("frames.jsonl", "link.jsonl", "summary.json", "report.html", "worst")


@dataclass(frozen=True, slots=True, eq=False)
class _Picture:
    answer: Answer
    picture: Picture


@dataclass(frozen=True, slots=True)
class _Late:
    id: FrameId


@dataclass(frozen=True, slots=True)
class _Settled:
    id: FrameId


@dataclass(frozen=True, slots=True, eq=False)
class _Shed:
    line: FrameLine


@dataclass(slots=True, eq=False)
class _Held:
    answer: Answer
    until_us: int
    late_far: bool = False


_Event = Answer | LinkSight | _Picture | _Shed | _Late | _Settled


def set_earlier_run_aside(path: Path) -> None:
    """Move the files of an earlier run to `earlier-N`, so that lines and summary are of one run. ConfigError."""
    files = [path / name for name in _FILES if (path / name).exists()]
    if not files:
        return
    number = 1 + sum(1 for _ in path.glob("earlier-*"))
    aside = path / f"earlier-{number}"
    try:
        aside.mkdir()
        for file in files:
            file.rename(aside / file.name)
    except OSError as error:
        raise ConfigError(
            f"{path} holds an earlier run that cannot be moved to {aside.name}: {error.strerror}; "
            "choose another directory with --run-dir"
        ) from error


class RunDir:
    """Writes into the directory `path`, made if it is missing; an earlier run there moves to `earlier-N`.

    `clock_us` is any monotonic clock; `lines` counts what was written. Raises ConfigError when the directory
    cannot be used.
    """

    def __init__(
        self,
        path: Path,
        *,
        clock_us: Callable[[], int],
        late_window_us: int = LATE_WINDOW_US,
        limit: int = _INBOX_LIMIT,
    ) -> None:
        self.path = path
        self._clock_us = clock_us
        self._late_window_us = late_window_us
        set_earlier_run_aside(path)
        self._file = JsonLines(path / "frames.jsonl")
        self._links: JsonLines | None = None  # made with its first line: an agent without a link has none
        self._worst = WorstPictures(path / "worst")
        self._picture_room = threading.Semaphore(_PICTURES_WAITING)
        self._inbox: Inbox[_Event] = Inbox(limit)
        self._held: OrderedDict[FrameId, _Held] = OrderedDict()
        self._refused_lines = 0
        self._unwritten = 0
        self._late_refused = 0
        self._late_missed = 0
        self.lines = 0
        self.link_lost = 0
        self.pictures_missed = 0
        self._thread = threading.Thread(target=self._run, name="run-dir", daemon=True)
        self._thread.start()

    @property
    def lost(self) -> int:
        """Captured frames without a line."""
        return self._refused_lines + self._unwritten

    @property
    def late_unmarked(self) -> int:
        """Late far results that could not be marked in their frame's line any more."""
        return self._late_refused + self._late_missed

    def answered(self, answer: Answer, picture: Picture | None = None) -> None:
        """An answer was released. Its `picture` is only held, and made small later, if it is among the worst."""
        self._refused_lines += not self._inbox.put(answer)
        if picture is None or not self._worst.may_enter(answer):
            return
        if not self._picture_room.acquire(blocking=False):
            self.pictures_missed += 1
        elif not self._inbox.put(_Picture(answer, picture)):
            self.pictures_missed += 1
            self._picture_room.release()

    def shed(self, frame: Frame, frame_id: FrameId, reason: ShedReason) -> None:
        self._refused_lines += not self._inbox.put(_Shed(shed_line(frame, frame_id, reason)))

    def gated(self, frame: Frame, frame_id: FrameId, why: str) -> None:
        self._refused_lines += not self._inbox.put(_Shed(gated_line(frame, frame_id, why)))

    def late_far(self, frame_id: FrameId) -> None:
        """A far result came after another answer was given: marked in the frame's line while that is held."""
        self._late_refused += not self._inbox.put(_Late(frame_id))

    def link(self, sight: LinkSight) -> None:
        """How the link looks now; a line that does not fit is counted in `link_lost`."""
        self.link_lost += not self._inbox.put(sight)

    def settled(self, frame_id: FrameId) -> None:
        """Nothing more can come for this frame: its line need not be held."""
        self._inbox.put(_Settled(frame_id))

    def write_summary(self, summary: Mapping[str, object]) -> None:
        """Replace `summary.json` in one step: readers see the old one or the new one, never a part.

        Raises ConfigError when the directory cannot be written to.
        """
        text = json.dumps(summary, indent=2) + "\n"
        target = self.path / "summary.json"
        draft = self.path / f".summary.json.{os.getpid()}"
        try:
            with draft.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(target)
        except OSError as error:
            draft.unlink(missing_ok=True)
            raise ConfigError(f"cannot write {target}: {error.strerror}") from error

    def close(self, timeout_s: float = 2.0) -> bool:
        """Write every line that is held or waits; False if that takes longer than `timeout_s`."""
        self._inbox.close()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    # -- the thread ---------------------------------------------------------------------------------------

    def _run(self) -> None:
        while (events := self._inbox.take(_LOOK_EVERY_S)) is not None:
            for event in events:
                self._on(event)
            self._write_passed()
            self._flush()
        for held in self._held.values():
            self._write(answer_line(held.answer, late_far=held.late_far))
        self._held.clear()
        self._flush()
        self._guarded(self._file.close)
        if self._links is not None:
            self._guarded(self._links.close)

    def _flush(self) -> None:
        self._guarded(self._file.flush)
        if self._links is not None:
            self._guarded(self._links.flush)

    def _on(self, event: _Event) -> None:
        match event:
            case Answer(answered_by=AnsweredBy.FAR):
                self._write(answer_line(event))
            case Answer():
                self._held[event.id] = _Held(event, self._clock_us() + self._late_window_us)
            case _Shed(line):
                self._write(line)
            case LinkSight():
                self._write_link(event)
            case _Picture(answer, picture):
                self._keep_picture(answer, picture)
            case _Late(frame_id):
                if (held := self._held.get(frame_id)) is not None:
                    held.late_far = True
                else:
                    self._late_missed += 1
            case _Settled(frame_id):
                if (held := self._held.pop(frame_id, None)) is not None:
                    self._write(answer_line(held.answer, late_far=held.late_far))

    def _write_passed(self) -> None:
        now_us = self._clock_us()
        while self._held and next(iter(self._held.values())).until_us <= now_us:
            _, held = self._held.popitem(last=False)
            self._write(answer_line(held.answer, late_far=held.late_far))

    def _write(self, line: FrameLine) -> None:
        try:
            self._file.write(line)
            self.lines += 1
        except OSError as error:
            self._unwritten += 1
            log.warning("run directory %s: %s", self.path, error)

    def _write_link(self, sight: LinkSight) -> None:
        try:
            if self._links is None:
                self._links = JsonLines(self.path / "link.jsonl")
            self._links.write(sight.as_line())
        except (OSError, ConfigError) as error:
            self.link_lost += 1
            log.warning("run directory %s: %s", self.path, error)

    def _keep_picture(self, answer: Answer, picture: Picture) -> None:
        try:
            self._worst.add(answer, picture)
        except (OSError, Rejected) as error:
            self.pictures_missed += 1
            log.warning("run directory %s: %s", self.path, error)
        finally:
            self._picture_room.release()

    def _guarded(self, step: Callable[[], None]) -> None:
        try:
            step()
        except OSError as error:
            log.warning("run directory %s: %s", self.path, error)
