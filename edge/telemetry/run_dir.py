"""The run directory: `frames.jsonl` with one line per captured frame, `link.jsonl` with the link over time,
`worst/` with pictures of the worst frames, and `summary.json`.

Writing happens on a thread of its own behind a bounded inbox: callers never block, and a line that did not
fit is counted in `lost`. A frame not answered far may still get a late far result, so its line is held
back until it is settled, `late_window_us` has passed or the run ends; every line is written once. Whatever
breaks on the way costs the line it concerns, counted, and no other.
"""

import json
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from edge.far.sight import LinkSight
from edge.inbox import Inbox
from edge.telemetry.earlier_run import set_earlier_run_aside
from edge.telemetry.frame_lines import FrameLine, answer_line, gated_line, shed_line
from edge.telemetry.json_lines import JsonLines
from edge.telemetry.worst import WorstPictures
from pipelines.errors import ConfigError
from pipelines.frame import Frame, FrameId, Picture
from pipelines.result import Answer, AnsweredBy, ShedReason
from pipelines.whole_file import write_whole

log = logging.getLogger(__name__)

LATE_WINDOW_US = 2_000_000
_INBOX_LIMIT = 8192
_LOOK_EVERY_S = 0.1
_PICTURES_WAITING = 8  # references to whole pictures, so memory stays small whatever happens


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
        self._inbox: Inbox[_Event] = Inbox(limit)
        self._held: OrderedDict[FrameId, _Held] = OrderedDict()
        self._counting = threading.Lock()  # of the two below: lines come from any thread
        self._accepted = 0
        self._refused_lines = 0
        self._abandoned = 0
        self._unwritten = 0
        self._late_refused = 0
        self._late_missed = 0
        self._said = ""
        self.lines = 0
        self.link_lost = 0
        self._pictures_taken = self._pictures_refused = 0  # by the one thread that offers them
        self._pictures_done = self._pictures_unkept = 0  # by the thread that keeps them
        self._thread = threading.Thread(target=self._run, name="run-dir", daemon=True)
        self._thread.start()

    @property
    def lost(self) -> int:
        """Captured frames without a line; what still waits counts only once `close` has given it up."""
        return self._refused_lines + self._unwritten + self._abandoned

    @property
    def pictures_waiting(self) -> int:
        """Whole pictures that are held until there is time for them."""
        return self._pictures_taken - self._pictures_done

    @property
    def pictures_missed(self) -> int:
        """Pictures of frames among the worst that could not be kept."""
        return self._pictures_refused + self._pictures_unkept

    @property
    def late_unmarked(self) -> int:
        """Late far results that could not be marked in their frame's line any more."""
        return self._late_refused + self._late_missed

    def answered(self, answer: Answer, picture: Picture | None = None) -> None:
        """An answer was released. Its `picture` is only held, and made small later, if it is among the worst."""
        self._offer(answer)
        if picture is None or not self._worst.may_enter(answer):
            return
        if self.pictures_waiting < _PICTURES_WAITING and self._inbox.put(_Picture(answer, picture)):
            self._pictures_taken += 1
        else:
            self._pictures_refused += 1

    def shed(self, frame: Frame, frame_id: FrameId, reason: ShedReason) -> None:
        self._offer(_Shed(shed_line(frame, frame_id, reason)))

    def gated(self, frame: Frame, frame_id: FrameId, why: str) -> None:
        self._offer(_Shed(gated_line(frame, frame_id, why)))

    def _offer(self, event: "Answer | _Shed") -> None:
        """What shall become a line."""
        taken = self._inbox.put(event)
        with self._counting:
            self._accepted += taken
            self._refused_lines += not taken

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
        try:
            write_whole(target, text.encode())
        except OSError as error:
            raise ConfigError(
                f"cannot write {target}: {error.strerror}; make room there, or choose another directory with --run-dir"
            ) from error

    def close(self, timeout_s: float = 2.0) -> bool:
        """Write every line that is held or waits; False if that takes longer than `timeout_s`: what has no line by
        then counts as lost."""
        self._inbox.close()
        self._thread.join(timeout_s)
        self._abandoned = self._accepted - self.lines - self._unwritten
        return not self._thread.is_alive()

    # -- the thread ---------------------------------------------------------------------------------------

    def _run(self) -> None:
        while (events := self._inbox.take(_LOOK_EVERY_S)) is not None:
            for event in events:
                self._take(event)
            self._write_passed()
            self._flush()
        while self._held:
            self._write_held(self._held.popitem(last=False)[1])
        self._flush()
        self._guarded(self._file.close)
        if self._links is not None:
            self._guarded(self._links.close)

    def _flush(self) -> None:
        self._guarded(self._file.flush)
        if self._links is not None:
            self._guarded(self._links.flush)

    def _take(self, event: _Event) -> None:
        """Whatever an event does here, the next one has its turn."""
        try:
            self._on(event)
        except Exception:
            log.exception("run directory %s: %s could not be taken", self.path, type(event).__name__)
            self._unwritten += isinstance(event, Answer | _Shed)

    def _on(self, event: _Event) -> None:
        match event:
            case Answer(answered_by=AnsweredBy.FAR):
                self._write(lambda: answer_line(event))
            case Answer():
                self._held[event.id] = _Held(event, self._clock_us() + self._late_window_us)
            case _Shed(line):
                self._write(lambda: line)
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
                    self._write_held(held)

    def _write_passed(self) -> None:
        now_us = self._clock_us()
        while self._held and next(iter(self._held.values())).until_us <= now_us:
            self._write_held(self._held.popitem(last=False)[1])

    def _write_held(self, held: _Held) -> None:
        self._write(lambda: answer_line(held.answer, late_far=held.late_far))

    def _write(self, line: Callable[[], FrameLine]) -> None:
        """One line, written or counted as unwritten."""
        try:
            self._file.write(line())
            self.lines += 1
        except Exception as error:  # noqa: BLE001 - a full disk or a value that is none: one line, not all that follow
            self._unwritten += 1
            self._complain(error)

    def _write_link(self, sight: LinkSight) -> None:
        try:
            if self._links is None:
                self._links = JsonLines(self.path / "link.jsonl")
            self._links.write(sight.as_line())
        except Exception as error:  # noqa: BLE001 - as above
            self.link_lost += 1
            self._complain(error)

    def _keep_picture(self, answer: Answer, picture: Picture) -> None:
        try:
            self._worst.add(answer, picture)
        except Exception as error:  # noqa: BLE001 - as above
            self._pictures_unkept += 1
            self._complain(error)
        finally:
            self._pictures_done += 1

    def _guarded(self, step: Callable[[], None]) -> None:
        try:
            step()
        except Exception as error:  # noqa: BLE001 - as above
            self._complain(error)

    def _complain(self, error: Exception) -> None:
        """Each new kind of trouble once, not once per line."""
        words = f"{type(error).__name__}: {error}"
        if words != self._said:
            self._said = words
            log.warning("run directory %s: %s", self.path, words)
