"""The thread that starts every engine process, hears the end of each at once, and starts it again after its delay.

Processes are started here and nowhere else: the kernel ends them with this thread, so none outlives the worker, even
one that is stopped or inside a loop that never comes back.
"""

import logging
import selectors
import socket
import threading
from collections.abc import Callable, Sequence

from cloud.engine.channel import ChannelClosedError, ChannelTimeoutError
from cloud.engine.messages import MalformedMessageError, Say
from cloud.engine.process import EngineProcess
from cloud.engine.recipe import Recipe
from cloud.engine.seat import EngineState, Seat
from pipelines.errors import Fatal, NearfarError, Retryable

log = logging.getLogger(__name__)

_REAP_WITHIN_S = 1.0
_AGAIN_S = 0.5
_END_WITHIN_US = 1_000_000


class Keeper:
    """`processes` engines, each with every one of `recipes`. `changed` guards the seats and is told of each change."""

    def __init__(
        self,
        recipes: Sequence[Recipe],
        *,
        processes: int,
        memory_bytes: int,
        threads: int,
        clock_us: Callable[[], int],
    ) -> None:
        self._recipes = recipes
        self._memory_bytes = memory_bytes
        self._threads = threads
        self._clock_us = clock_us
        self._seats = [Seat(number=i) for i in range(processes)]
        self._changed = threading.Condition()
        self._stopping = False
        self._bell, self._ring = socket.socketpair()
        self._bell.setblocking(False)
        self._thread = threading.Thread(target=self._run, name="nearfar-engines", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def states(self) -> list[EngineState]:
        with self._changed:
            now_us = self._clock_us()
            return [seat.state(now_us) for seat in self._seats]

    def running(self, number: int) -> EngineProcess | None:
        """Engine `number`, while it lives."""
        with self._changed:
            return self._seats[number].running

    def wait_running(self, number: int) -> EngineProcess:
        """The same, waiting for it to be started again. Raises Fatal when it cannot be started, Retryable when
        engines are being stopped."""
        seat = self._seats[number]
        with self._changed:
            failures = seat.failures
            while not self._stopping:
                process = seat.running
                if process is not None:
                    return process
                if seat.failures > failures:
                    raise Fatal(f"engine {number} {seat.cause}")
                self._changed.wait()
        raise Retryable("the engines are being stopped")

    def stop(self) -> None:
        """End every engine, within a second; whoever waits for one is told. Idempotent."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread.ident is None:
            self._close_bell()
        elif self._thread.is_alive():
            self._ring.send(b"!")
            self._thread.join()

    def _run(self) -> None:
        with selectors.DefaultSelector() as watch:
            watch.register(self._bell, selectors.EVENT_READ)
            while not self._stopping:
                try:
                    self._start_due(watch)
                    for key, _ in watch.select(self._sleep_s()):
                        if isinstance(key.data, Seat):
                            self._listen(key.data, watch)
                except Exception:
                    log.exception("the engines could not be looked after, and are looked at again")
                    with self._changed:
                        self._changed.wait_for(lambda: self._stopping, _AGAIN_S)
            self._end_all()
        self._close_bell()

    def _sleep_s(self) -> float | None:
        due = [seat.due_us for seat in self._seats if seat.process is None]
        return max(0.0, (min(due) - self._clock_us()) / 1e6) if due else None

    def _start_due(self, watch: selectors.BaseSelector) -> None:
        for seat in self._seats:
            if seat.process is not None or seat.due_us > self._clock_us() or self._stopping:
                continue
            seat.starts += 1
            try:
                process = EngineProcess(
                    seat.number,
                    self._recipes,
                    memory_bytes=self._memory_bytes,
                    threads=self._threads,
                    log_level=log.getEffectiveLevel(),
                )
            except NearfarError as error:
                seat.failures += 1
                self._ended(seat, f"cannot be started: {error}", ready_us=0)
                continue
            watch.register(process.control, selectors.EVENT_READ, seat)
            with self._changed:
                seat.process = process
                self._changed.notify_all()

    def _listen(self, seat: Seat, watch: selectors.BaseSelector) -> None:
        """What an engine says of itself, or that it has ended."""
        process = seat.process
        assert process is not None, "only a process is listened to"  # noqa: S101 - an invariant of the keeper
        try:
            message = process.control.receive(0.0)
        except ChannelTimeoutError:
            return
        except (ChannelClosedError, MalformedMessageError):
            watch.unregister(process.control)
            process.gone.set()
            process.reap(_REAP_WITHIN_S)
            cause = process.cause(0)
            ready_us = self._clock_us() - process.loaded_us if process.loaded_us else 0
            self._ended(seat, cause, ready_us=ready_us)
            process.end()
            return
        if message.say is Say.LOADED:
            with self._changed:
                process.loaded_us = self._clock_us()
                self._changed.notify_all()

    def _ended(self, seat: Seat, cause: str, *, ready_us: int) -> None:
        with self._changed:
            wait_us = seat.delay.after(ready_us)
            # Else it never began, once more, for the reason that was said.
            news = ready_us > 0 or cause != seat.cause
            seat.process, seat.cause = None, cause
            seat.due_us = self._clock_us() + wait_us
            self._changed.notify_all()
        again = f"in {wait_us / 1e6:.1f} s" if wait_us else "at once"
        log.log(
            logging.WARNING if news else logging.DEBUG,
            "engine %d %s; it starts again %s",
            seat.number,
            cause,
            again,
        )

    def _end_all(self) -> None:
        processes = [seat.process for seat in self._seats if seat.process is not None]
        until_us = self._clock_us() + _END_WITHIN_US
        for process in processes:
            process.kill("was stopped")  # all at once: the waits below overlap
        for process in processes:
            process.end(max(0, until_us - self._clock_us()) / 1e6)
        with self._changed:
            for seat in self._seats:
                seat.process, seat.cause, seat.stopped = None, "was stopped", True

    def _close_bell(self) -> None:
        self._bell.close()
        self._ring.close()
