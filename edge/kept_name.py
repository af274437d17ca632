"""The name of an agent in its state directory: a record is known by it, so it is kept before any record is."""

import logging
import re
import secrets
from pathlib import Path

from pipelines.errors import ConfigError
from pipelines.whole_file import write_whole

log = logging.getLogger(__name__)

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
FILE_NAME = "agent"


def kept_name(state_dir: Path) -> str:
    """The name in a state directory, empty for none: what a power cut or a damaged disk left of one counts as none."""
    try:
        found = _read(state_dir / FILE_NAME)
    except OSError:
        return ""
    return found if NAME.fullmatch(found) else ""


class KeptName:
    """`name`: the configured one, else the kept one, else a new one. Raises ConfigError for one that is no name, and for
    a kept one that cannot be read while none is configured.

    A file that holds no name counts as none: a gateway that answers under a new name is better than one that does not.
    """

    def __init__(self, state_dir: Path, configured: str | None) -> None:
        self._path = state_dir / FILE_NAME
        if configured is not None and not NAME.fullmatch(configured):
            raise ConfigError(f"agent name {configured!r} must be 1–63 letters, digits, '.', '_' or '-'")
        try:
            found = _read(self._path)
        except OSError as error:
            if configured is None:
                raise ConfigError(
                    f"the agent's name cannot be read from {self._path}: {error.strerror}; mend the file, or give the "
                    "name with --set agent=NAME"
                ) from error
            found = ""
        self._kept = found if NAME.fullmatch(found) else ""
        self.name = configured or self._kept or f"gw-{secrets.token_hex(4)}"
        if found and not self._kept and configured is None:
            log.warning("%s holds no name but %r: this agent is %s now", self._path, found[:80], self.name)
        elif self._kept and self._kept != self.name:
            log.warning(
                "this agent was %s and is %s now: what its outbox still holds goes up under the new name",
                self._kept,
                self.name,
            )

    def keep(self) -> None:
        """So that the next start has it too; nothing to do if it is there. Raises OSError."""
        if self._kept != self.name:
            write_whole(self._path, f"{self.name}\n".encode())
            self._kept = self.name


def _read(path: Path) -> str:
    """Raises OSError; empty if there is no file."""
    try:
        return path.read_text(errors="replace").strip()
    except FileNotFoundError:
        return ""
