"""Threads that take turns at reading: the one that read a frame may run it, another goes on reading in its place.

What is read is read by one thread at a time, in order. A thread that comes back from its frame rests until it is
needed; so there are as many as read and run at once, and a few that rest. While a quick frame is run nobody is woken to
read: only if it takes longer than it should, within `OVERDUE_S` twice.
"""

import logging
import threading
import time
from collections.abc import Callable

from protos.endpoint import Run

log = logging.getLogger(__name__)

Reading = Callable[[], None]
"""Reads until there is no more, or until it has been put on another thread."""

OVERDUE_S = 0.005
_MOST_RESTING = 4
_TAKEN_OVER = object()
_WATCHED_FOR_S = 1.0  # after the last quick frame


class _Member:
    """A thread and the bell it rests behind; `reading` is what it is called for, None to go home."""

    def __init__(self) -> None:
        self.bell = threading.Lock()
        self.bell.acquire()
        self.reading: Reading | None = None


class _Lead:
    """A quick frame on its way, and who is to read on if it is not so quick."""

    __slots__ = ("begun_s", "read_on")

    def __init__(self, read_on: Reading) -> None:
        self.read_on = read_on
        self.begun_s = time.monotonic()


class Crew:
    """Thread-safe. `name` is that of its threads."""

    def __init__(self, name: str) -> None:
        self._name = name
        # Whoever takes one out decides who reads on; one step of the interpreter, so that no frame costs a lock.
        self._leads: dict[_Lead, None] = {}
        self._led_s = 0.0
        self._watched = False
        self._lock = threading.Lock()
        self._resting: list[_Member] = []
        self._threads: list[threading.Thread] = []
        self._dismissed = False

    @property
    def threads(self) -> list[threading.Thread]:
        """Those that have not gone home."""
        with self._lock:
            return list(self._threads)

    @property
    def resting(self) -> int:
        with self._lock:
            return len(self._resting)

    def put_on(self, reading: Reading) -> bool:
        """Have another thread read; False if there is none and none can be started: go on yourself."""
        with self._lock:
            if self._dismissed:
                return False
            if self._resting:
                member = self._resting.pop()  # the one that came last: its caches are warm
                member.reading = reading
                member.bell.release()
                return True
            thread = threading.Thread(target=self._work, args=(reading,), name=self._name, daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the system has no thread left
                return False
            self._threads.append(thread)
            return True

    def run(self, run: Run, read_on: Reading) -> bool:
        """Run a frame on this thread; True if another one has gone on to read meanwhile, and this one is to come back.
        Raises nothing."""
        if not run.quick:
            put_on = self.put_on(read_on)
            _guarded(run)
            return put_on
        lead = _Lead(read_on)
        self._leads[lead] = None
        self._led_s = lead.begun_s
        if not self._watched:
            self._have_watched()
        _guarded(run)
        return self._leads.pop(lead, _TAKEN_OVER) is _TAKEN_OVER

    def _have_watched(self) -> None:
        with self._lock:
            watched, self._watched = self._watched, True
        if not watched and not self.put_on(self._watch):
            self._watched = False

    def _watch(self) -> None:
        """See to it that somebody reads while a quick frame is not so quick."""
        while True:
            time.sleep(OVERDUE_S)
            now_s = time.monotonic()
            overdue = [lead for lead in list(self._leads) if now_s - lead.begun_s > OVERDUE_S]
            with self._lock:
                if self._dismissed or (not self._leads and now_s - self._led_s > _WATCHED_FOR_S):
                    self._watched = False
            for lead in overdue:
                if self._leads.pop(lead, _TAKEN_OVER) is not _TAKEN_OVER:
                    self._take_over(lead)
            if not self._watched and not self._go_on_watching():
                return

    def _go_on_watching(self) -> bool:
        """Whether a frame came while the watch was about to end, and nobody else watches."""
        with self._lock:
            if self._dismissed or self._watched or not self._leads:
                return False
            self._watched = True
            return True

    def _take_over(self, lead: _Lead) -> None:
        if not self.put_on(lead.read_on):
            lead.read_on()

    def dismiss(self) -> None:
        """Nobody is called any more: those that rest go home now, the others when they come back."""
        with self._lock:
            self._dismissed = True
            resting, self._resting = self._resting, []
        for member in resting:
            member.bell.release()

    def _work(self, first: Reading) -> None:
        member = _Member()
        reading: Reading | None = first
        while reading is not None:
            _guarded(reading)
            reading = self._next(member)

    def _next(self, member: _Member) -> Reading | None:
        """Rest until called; None to go home."""
        with self._lock:
            if self._dismissed or len(self._resting) >= _MOST_RESTING:
                self._threads.remove(threading.current_thread())
                return None
            member.reading = None
            self._resting.append(member)
        member.bell.acquire()
        if member.reading is None:
            with self._lock:
                self._threads.remove(threading.current_thread())
        return member.reading


def _guarded(work: Callable[[], None]) -> None:
    """What fails here failed in a way nobody foresaw; the thread has others to serve."""
    try:
        work()
    except Exception:
        log.exception("a listener's thread failed at its work, and goes on")
