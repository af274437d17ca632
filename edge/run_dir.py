"""The run directory: `frames.jsonl` with one line per captured frame, and `summary.json`.

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
from typing import Any

from edge.inbox import Inbox
from edge.json_lines import JsonLines
from pipelines.errors import ConfigError
from pipelines.frame import Encoding, Frame, FrameId
from pipelines.result import Answer, AnsweredBy, ShedReason

log = logging.getLogger(__name__)

LATE_WINDOW_US = 2_000_000
_INBOX_LIMIT = 8192
_LOOK_EVERY_S = 0.1

FrameLine = dict[str, Any]


def answer_line(answer: Answer, *, late_far: bool = False) -> FrameLine:
    """An answered frame as plain values. Times in ms, boxes in source pixels; no answer is null, never []."""
    return {
        **_identity(answer.id, answer.captured_unix_us),
        "outcome": "answered",
        "answered_by": answer.answered_by.value,
        "status": answer.status.value,
        "latency_ms": _ms(answer.latency_us),
        "deadline_ms": _ms(answer.deadline_us),
        "on_time": answer.on_time,
        "paced": answer.paced,
        "late_far": late_far,
        "reason": answer.reason,
        "link": answer.link,
        "encoding": None if answer.encoding is None else _encoding(answer.encoding),
        "model": answer.model,
        "detections": None if answer.detections is None else answer.detections.as_rows(),
        "timing": {name: _ms(us) for name, us in answer.timing_us.items()},
    }


def shed_line(frame: Frame, frame_id: FrameId, reason: ShedReason) -> FrameLine:
    """A frame that was given up, with the reason; it has no answer and no times."""
    return {
        **_identity(frame_id, frame.captured_unix_us),
        "outcome": "shed",
        "answered_by": None,
        "status": None,
        "latency_ms": None,
        "deadline_ms": None,
        "on_time": False,
        "paced": frame.paced,
        "late_far": False,
        "reason": reason.value,
        "link": "",
        "encoding": None,
        "model": "",
        "detections": None,
        "timing": {},
    }


def _identity(frame_id: FrameId, captured_unix_us: int) -> FrameLine:
    return {
        "agent": frame_id.agent,
        "run": frame_id.run.hex(),
        "stream": frame_id.stream,
        "seq": frame_id.seq,
        "captured_unix_ms": _ms(captured_unix_us),
    }


def _encoding(encoding: Encoding) -> dict[str, object]:
    return {
        "codec": encoding.codec,
        "quality": encoding.quality,
        "width": encoding.width_px,
        "height": encoding.height_px,
        "bytes": encoding.body_bytes,
    }


def _ms(us: int) -> float:
    return us / 1000


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


def set_earlier_run_aside(path: Path) -> None:
    """Move the files of an earlier run to `earlier-N`, so that lines and summary are of one run. ConfigError."""
    files = [path / "frames.jsonl", path / "summary.json"]
    if not any(file.exists() for file in files):
        return
    number = 1 + sum(1 for _ in path.glob("earlier-*"))
    aside = path / f"earlier-{number}"
    try:
        aside.mkdir()
        for file in files:
            if file.exists():
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
        self._inbox: Inbox[Answer | _Shed | _Late | _Settled] = Inbox(limit)
        self._held: OrderedDict[FrameId, _Held] = OrderedDict()
        self._refused_lines = 0
        self._unwritten = 0
        self._late_refused = 0
        self._late_missed = 0
        self.lines = 0
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

    def answered(self, answer: Answer) -> None:
        self._refused_lines += not self._inbox.put(answer)

    def shed(self, frame: Frame, frame_id: FrameId, reason: ShedReason) -> None:
        self._refused_lines += not self._inbox.put(_Shed(shed_line(frame, frame_id, reason)))

    def late_far(self, frame_id: FrameId) -> None:
        """A far result came after another answer was given: marked in the frame's line while that is held."""
        self._late_refused += not self._inbox.put(_Late(frame_id))

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
            self._guarded(self._file.flush)
        for held in self._held.values():
            self._write(answer_line(held.answer, late_far=held.late_far))
        self._held.clear()
        self._guarded(self._file.flush)
        self._guarded(self._file.close)

    def _on(self, event: Answer | _Shed | _Late | _Settled) -> None:
        match event:
            case Answer(answered_by=AnsweredBy.FAR):
                self._write(answer_line(event))
            case Answer():
                self._held[event.id] = _Held(event, self._clock_us() + self._late_window_us)
            case _Shed(line):
                self._write(line)
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

    def _guarded(self, step: Callable[[], None]) -> None:
        try:
            step()
        except OSError as error:
            log.warning("run directory %s: %s", self.path, error)
