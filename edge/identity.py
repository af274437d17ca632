"""Who this agent is: a name made once and kept, a fresh run per start, and one agent per state directory."""

import fcntl
import re
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pipelines.errors import ConfigError
from pipelines.frame import new_run

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


@dataclass(frozen=True, slots=True)
class Identity:
    agent: str
    run: bytes


class InUseError(ConfigError):
    """Another agent has the directory."""


class StateDir:
    """The agent's directory, locked for as long as this object is open. Raises ConfigError when another agent has it,
    or it is no folder to write to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock: IO[str] = (path / "lock").open("w")
        except OSError as error:
            raise ConfigError(
                f"state_dir {path} cannot be used: {error.strerror}; "
                "choose another with --set state_dir=DIR or mend its permissions"
            ) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._lock.close()
            raise InUseError(
                f"another agent runs in {path}; stop it, or give this one its own with --set state_dir=DIR"
            ) from error

    def identity(self, configured: str | None) -> Identity:
        """The configured name, else the kept one, else a new one that is kept from now on."""
        kept = self.path / "agent"
        name = configured
        if name is None:
            name = kept.read_text().strip() if kept.exists() else f"gw-{secrets.token_hex(4)}"
        if not NAME.fullmatch(name):
            raise ConfigError(f"agent name {name!r} must be 1–63 letters, digits, '.', '_' or '-'")
        temporary = kept.with_suffix(".new")
        try:
            temporary.write_text(name + "\n")
            temporary.replace(kept)
        except OSError as error:
            # A full or read-only disk must not keep a gateway from answering; a made name is lost with it.
            if configured is None and not kept.exists():
                raise ConfigError(
                    f"the agent's name cannot be kept in {self.path}: {error.strerror}; "
                    "give it one with --set agent=NAME, or make room"
                ) from error
        return Identity(name, new_run())

    def close(self) -> None:
        self._lock.close()
