"""What the watchdog of a camera decides, as a pure machine: moments and happenings in, decisions out.

At most one connection is `current`, and only its pictures count. One that is refused, dropped or silent for too long
is let go and another is tried after a backoff, for ever; while `MOST_HANGING` have not come back, none is begun.
Each trouble is said once until pictures come again. Only pictures that last make it quick and talkative again: a
camera that comes and goes is tried less and less often, and hardly spoken of.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from edge.backoff import Backoff
from edge.capture.base import Shape, skipped_words
from edge.capture.staleness import Staleness
from edge.capture.state import StreamState, StreamStatus

MOST_HANGING = 3
"""Connections left behind in C code; no new one is begun beside so many."""


LASTS_US = 5_000_000
"""A connection that gave pictures for so long was a good one."""
REMIND_US = 60_000_000
"""How often a camera that comes and goes is spoken of."""
_QUIET_AFTER = 2  # good connections too short in a row: from then on it is known to come and go
_ONE_PICTURE = (
    "it gives one picture and closes: this looks like a snapshot address; ask the camera for its stream's"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """`open_us` from the attempt to its first picture, `stall_us` between pictures, `max_stale_us` the age beyond
    which a picture is shed."""

    open_us: int
    stall_us: int
    max_stale_us: int


@dataclass(frozen=True, slots=True)
class Connect:
    """Begin a connection; report `lost` when it is over, whatever became of it."""

    number: int


@dataclass(frozen=True, slots=True)
class LetGo:
    """Nobody wants the pictures of this connection any more."""

    number: int


@dataclass(frozen=True, slots=True)
class Publish:
    """The picture counts; it is `age_us` older than its arrival."""

    age_us: int


@dataclass(frozen=True, slots=True)
class Shed:
    """The picture is too old to be worth an answer."""

    age_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Say:
    """For the log; `warn` False: all is as it should be."""

    words: str
    warn: bool = True


Decision = Connect | LetGo | Publish | Shed | Say


class CameraMachine:
    """Moments are µs of one monotonic clock. `expected`: what is known before the first picture."""

    def __init__(self, *, patience: Patience, expected: Shape, backoff: Backoff, now_us: int) -> None:
        self.shape = expected
        self.over = False
        self._patience = patience
        self._backoff = backoff
        self._state, self._since_us, self._reason = StreamState.CONNECTING, now_us, ""
        self._said: set[str] = set()
        self._attempts = 0
        self._current: int | None = None
        self._alive: set[int] = set()
        self._begun_us = self._retry_us = now_us
        self._fresh_us: int | None = None  # when the current connection gave its last fresh picture
        self._first_us: int | None = None  # and its first
        self._pictures = 0  # it gave
        self._singles = 0  # connections in a row that gave one picture and ended
        self._short = 0  # connections in a row whose pictures did not last
        self._remind_us = 0
        self._stale = 0
        self._stale_in_a_row = 0
        self._staleness = Staleness(max_stale_us=patience.max_stale_us)

    def __repr__(self) -> str:
        return f"<CameraMachine {self._state} current={self._current} alive={sorted(self._alive)}>"

    @property
    def due_us(self) -> int | None:
        """When `look` has something to decide next, if nothing happens before; None: never."""
        if self.over:
            return None
        if self._current is not None:
            return self._patience_ends_us
        return None if len(self._alive) >= MOST_HANGING else self._retry_us

    def status(self, *, frames: int) -> StreamStatus:
        return StreamStatus(
            state=self._state,
            since_us=self._since_us,
            reason=self._reason,
            frames=frames,
            stale=self._stale,
            reconnects=max(0, self._attempts - 1),
            hanging=len(self._alive - {self._current}),
            width_px=self.shape.width_px,
            height_px=self.shape.height_px,
        )

    @property
    def current(self) -> int | None:
        """The connection whose pictures count."""
        return self._current

    def look(self, now_us: int, *, skipped: int = 0) -> Sequence[Decision]:
        """Time has passed; the current connection gave `skipped` things since its last picture that were none."""
        if self.over:
            return ()
        out: list[Decision] = []
        if self._current is not None and now_us >= self._patience_ends_us:
            out += self._give_up(self._silence(skipped), now_us)
        if self._current is None and now_us >= self._retry_us and len(self._alive) < MOST_HANGING:
            self._attempts += 1
            self._current, self._begun_us, self._fresh_us = self._attempts, now_us, None
            self._alive.add(self._attempts)
            self._first_us, self._pictures = None, 0
            self._stale_in_a_row = 0
            self._staleness = Staleness(max_stale_us=self._patience.max_stale_us)
            out.append(Connect(self._attempts))
        return out

    def opened(self, number: int, shape: Shape) -> None:
        if number == self._current:
            self.shape = shape

    def given(
        self, number: int, *, size_px: tuple[int, int], pts_us: int | None, now_us: int
    ) -> Sequence[Decision]:
        """A picture of `size_px` (width, height) came: exactly one of Publish, Shed and LetGo is decided."""
        if number != self._current or self.over:
            return (LetGo(number),)
        self._pictures += 1
        age = self._staleness.judge(arrived_us=now_us, pts_us=pts_us)
        if age.stale:
            self._stale += 1
            self._stale_in_a_row += 1
            return (Shed(age.age_us),)
        self._stale_in_a_row = 0
        self._fresh_us = now_us
        return (*self._follow(size_px, now_us), Publish(age.age_us))

    def lost(self, number: int, reason: str, now_us: int) -> Sequence[Decision]:
        """The connection is over and holds nothing any more."""
        self._alive.discard(number)
        if number != self._current or self.over:
            return ()
        self._singles = self._singles + 1 if self._pictures == 1 else 0
        return self._give_up(_ONE_PICTURE if self._singles > 1 else reason, now_us)

    def stop(self, now_us: int) -> Sequence[Decision]:
        """Capture nothing more. Harmless twice."""
        if self.over:
            return ()
        self.over = True
        current, self._current = self._current, None
        said = self._become(StreamState.ENDED, "", now_us)
        return said if current is None else (LetGo(current), *said)

    # -- one connection -----------------------------------------------------------------------------------

    @property
    def _patience_ends_us(self) -> int:
        if self._fresh_us is None:
            return self._begun_us + self._patience.open_us
        return self._fresh_us + self._patience.stall_us

    def _silence(self, skipped: int) -> str:
        open_s, stall_s = self._patience.open_us / 1e6, self._patience.stall_us / 1e6
        if self._stale_in_a_row:
            return (
                f"pictures come, but none fresh for {open_s if self._fresh_us is None else stall_s:g} s: each is "
                f"more than {self._patience.max_stale_us / 1e3:g} ms old. This gateway receives or decodes them too "
                "slowly; ask the camera for smaller or fewer pictures, or give the gateway less to do"
            )
        came = f": {words}" if (words := skipped_words(skipped)) else ""
        if self._fresh_us is None:
            return f"no picture within {open_s:g} s of connecting{came}"
        return f"no fresh picture for {stall_s:g} s{came}"

    def _give_up(self, reason: str, now_us: int) -> Sequence[Decision]:
        number, self._current = self._current, None
        if self._first_us is not None and self._fresh_us is not None:
            self._short = 0 if self._fresh_us - self._first_us >= LASTS_US else self._short + 1
            if self._short < _QUIET_AFTER:
                self._backoff.reset()
        self._retry_us = now_us + self._backoff.next_us()
        said = [*self._trouble(reason, now_us)]
        if len(self._alive) >= MOST_HANGING:
            hanging = f"{len(self._alive)} earlier connections hang in the decoder"
            said += self._trouble(f"{hanging}; waiting for one of them to end", now_us)
        return said if number is None or number not in self._alive else (LetGo(number), *said)

    def _follow(self, size_px: tuple[int, int], now_us: int) -> Sequence[Decision]:
        out: list[Decision] = []
        width_px, height_px = size_px
        if size_px != (self.shape.width_px, self.shape.height_px):
            if self._state is StreamState.RUNNING:
                out.append(Say(words=f"pictures are {width_px}x{height_px} from now on", warn=False))
            self.shape = Shape(width_px=width_px, height_px=height_px, fps=self.shape.fps)
        if self._state is not StreamState.RUNNING:
            out += self._become(StreamState.RUNNING, "", now_us)
        if self._first_us is None:
            self._first_us = now_us
        elif now_us - self._first_us >= LASTS_US:
            if self._comes_and_goes:
                out.append(Say(words=f"running steadily again, {width_px}x{height_px} pictures"))
            self._short = 0
        return out

    @property
    def _comes_and_goes(self) -> bool:
        return self._short >= _QUIET_AFTER

    # -- states -------------------------------------------------------------------------------------------

    def _trouble(self, reason: str, now_us: int) -> Sequence[Decision]:
        seen = self._state in (StreamState.RUNNING, StreamState.STALLED)
        return self._become(StreamState.STALLED if seen else StreamState.CONNECTING, reason, now_us)

    def _become(self, state: StreamState, reason: str, now_us: int) -> Sequence[Decision]:
        before, since_us = self._state, self._since_us
        self._reason = reason
        if state is not before:
            self._state, self._since_us = state, now_us
            if not self._comes_and_goes or now_us >= self._remind_us:
                self._said.clear()
                self._remind_us = now_us + REMIND_US
        if state is StreamState.RUNNING:
            words = f"{self.shape.width_px}x{self.shape.height_px} pictures"
            if before is StreamState.CONNECTING and self._attempts == 1:
                return (Say(words=f"running, {words}", warn=False),)
            if self._comes_and_goes:
                return ()
            return (Say(words=f"running again, {words}, after {(now_us - since_us) / 1e6:.1f} s without"),)
        if not reason or reason in self._said:
            return ()
        self._said.add(reason)
        often = f" ({self._short} times its pictures did not last)" if self._comes_and_goes else ""
        return (Say(words=f"{state}: {reason}; it is opened anew until pictures come{often}"),)
