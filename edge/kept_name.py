"""The name of an agent in its state directory: a record is known by it, so it is kept before any record is."""

import logging
import re
import secrets
from pathlib import Path

from pipelines.errors import ConfigError
from pipelines.whole_file import write_whole

log = logging.getLogger(__name__)

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


class KeptName:
    """`name`: the configured one, else the kept one, else a new one. Raises ConfigError for one that is no name.

    What a power cut or a damaged disk left of a kept name counts as none: a gateway that answers under a new name is
    better than one that does not.
    """

    def __init__(self, path: Path, configured: str | None) -> None:
        self._path = path
        if configured is not None and not NAME.fullmatch(configured):
            raise ConfigError(f"agent name {configured!r} must be 1–63 letters, digits, '.', '_' or '-'")
        kept = self._read()
        self._kept = kept if NAME.fullmatch(kept) else ""
        if kept != self._kept and configured is None:
            log.warning("%s holds no name but %r: this agent gets a new one", path, kept[:80])
        self.name = configured or self._kept or f"gw-{secrets.token_hex(4)}"

    def keep(self) -> None:
        """So that the next start has it too; nothing to do if it is there. Raises OSError."""
        if self._kept != self.name:
            write_whole(self._path, f"{self.name}\n".encode())
            self._kept = self.name

    def _read(self) -> str:
        try:
            return self._path.read_text(errors="replace").strip()
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise ConfigError(
                f"the agent's name cannot be read from {self._path}: {error.strerror}; mend the file, or remove it "
                "and give the name with --set agent=NAME"
            ) from error
