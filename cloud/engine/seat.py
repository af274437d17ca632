"""One engine through all its lives: the process it is now, why the last one ended, when the next one starts."""

from dataclasses import dataclass, field
from enum import StrEnum

from cloud.engine.process import EngineProcess
from cloud.engine.restart_delay import RestartDelay


class Condition(StrEnum):
    """Of an engine: its detectors load, all of them can be used, or it has ended and waits for its next start."""

    STARTING = "starting"
    READY = "ready"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineState:
    """`pid` 0: there is none now. `words`: what is wrong, empty when nothing is."""

    engine: int
    pid: int
    condition: Condition
    restarts: int
    words: str


@dataclass(slots=True, kw_only=True, eq=False)
class Seat:
    """Not thread-safe: the keeper's lock is held. Times in µs of its clock. `failures`: starts that gave no process."""

    number: int
    process: EngineProcess | None = None
    due_us: int = 0
    starts: int = 0
    failures: int = 0
    delay: RestartDelay = field(default_factory=RestartDelay)
    cause: str = ""
    stopped: bool = False

    @property
    def running(self) -> EngineProcess | None:
        """The process, while it lives."""
        return None if self.process is None or self.process.gone.is_set() else self.process

    def state(self, now_us: int) -> EngineState:
        process = self.running
        if process is None:
            condition = Condition.ENDED
        else:
            condition = Condition.READY if process.loaded_us else Condition.STARTING
        return EngineState(
            engine=self.number,
            pid=0 if process is None else process.pid,
            condition=condition,
            restarts=max(0, self.starts - 1),
            words=self._words(condition, now_us),
        )

    def _words(self, condition: Condition, now_us: int) -> str:
        if condition is Condition.READY:
            return ""
        if self.process is not None and condition is Condition.ENDED:
            return f"{self.process.cause(0)}; it is starting again"  # the keeper has yet to hear of it
        if not self.cause:
            return "is starting"
        if self.stopped:
            return self.cause
        row = f", {self.delay.in_a_row} times in a row" if self.delay.in_a_row > 1 else ""
        wait_us = self.due_us - now_us
        if condition is Condition.STARTING or wait_us <= 0:
            return f"{self.cause}{row}; it is starting again"
        return f"{self.cause}{row}; it starts again in {wait_us / 1e6:.1f} s"
