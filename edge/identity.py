"""Who this agent is: a name made once and kept, a fresh run per start, and one agent per state directory."""

import errno
import fcntl
import logging
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from edge.kept_name import KeptName
from pipelines.errors import ConfigError
from pipelines.frame import new_run

log = logging.getLogger(__name__)

SLOW_S = 5.0
SLOW_WORDS = "state_dir %s does not answer, and nothing starts before it does: is its disk or network away?"


def _kept() -> None:
    """A name that somebody else keeps."""


@dataclass(frozen=True, slots=True)
class Identity:
    """`keep` raises OSError until the name is on the disk: no record may be there before it is."""

    agent: str
    run: bytes
    keep: Callable[[], None] = field(default=_kept, compare=False, repr=False)


class InUseError(ConfigError):
    """Another agent has the directory."""


class StateDir:
    """The agent's directory, locked for as long as this object is open. Raises ConfigError when another agent has it,
    or it is no folder to write to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        slow = threading.Timer(SLOW_S, log.error, (SLOW_WORDS, path))
        slow.daemon = True
        slow.start()
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock = _to_lock(path)
        except OSError as error:
            raise ConfigError(
                f"state_dir {path} cannot be used: {error.strerror}; "
                "choose another with --set state_dir=DIR or mend its permissions"
            ) from error
        finally:
            slow.cancel()
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            raise InUseError(
                f"another agent runs in {path}; stop it, or give this one its own with --set state_dir=DIR"
            ) from error

    def identity(self, configured: str | None) -> Identity:
        """The configured name, else the kept one, else a new one that is kept from now on."""
        name = KeptName(self.path, configured)
        try:
            name.keep()
        except OSError as error:
            # A full or read-only disk must not keep a gateway from answering.
            log.warning(
                "the agent's name %s cannot be kept in %s yet: %s; answers go on, and it is kept before any record is",
                name.name,
                self.path,
                error.strerror,
            )
        return Identity(name.name, new_run(), name.keep)

    def close(self) -> None:
        """May be called again: another file may have the descriptor's number by then."""
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)


def _to_lock(path: Path) -> int:
    """A descriptor whose lock says that the directory is ours. A card that turned read-only keeps no gateway from starting:
    its lock file needs no writing, and where it has none nobody holds it."""
    try:
        return os.open(path / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        if error.errno != errno.EROFS:
            raise
    with suppress(FileNotFoundError):
        return os.open(path / "lock", os.O_RDONLY)
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY)
