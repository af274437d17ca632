"""A connection that is being made, on a thread of its own, so that whoever waits for it may stop waiting: a name that
resolves slowly and a host with several dead addresses take longer than any timeout of one socket."""

import threading
from collections.abc import Callable


class Dial:
    """Runs `connect` at once. `over` is called on the dial's thread when that has returned or failed; `hang_up` ends a
    connection that nobody waits for any more, on that thread or on the one that gives up."""

    def __init__(
        self, connect: Callable[[], object], *, over: Callable[[], None], hang_up: Callable[[], None]
    ) -> None:
        self._connect = connect
        self._over = over
        self._hang_up = hang_up
        self._lock = threading.Lock()
        self._given_up = False
        self.ended = False
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="dial", daemon=True)
        self._thread.start()

    def give_up(self) -> None:
        """Nobody waits any more: what comes of it is hung up."""
        with self._lock:
            self._given_up = True
            stale = self.ended and self._error is None
        if stale:
            self._hang_up()

    def take_error(self) -> Exception | None:
        """Why it failed, once: its traceback holds this dial, and a socket that must go with it."""
        error, self._error = self._error, None
        return error

    def _run(self) -> None:
        error: Exception | None = None
        try:
            self._connect()
        except Exception as failure:  # noqa: BLE001 - who waits says what it means
            error = failure
        with self._lock:
            self._error, self.ended = error, True
            stale = self._given_up and error is None
        error = None  # its traceback holds this frame
        if stale:
            self._hang_up()
        self._over()
