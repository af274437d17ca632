"""A password or token that is kept outside the configuration: in a file or in the environment.

It is read at each use, so that a new one needs no restart, and is part of no error, log or `repr`.
"""

import os
from pathlib import Path

from pipelines.errors import ConfigError


class Secret:
    """From `file` or from the environment variable `env`; `what` names it in errors."""

    def __init__(self, *, what: str, file: Path | None = None, env: str | None = None) -> None:
        self._what = what
        self._file = file
        self._env = env

    def __bool__(self) -> bool:
        """Whether there is to be one."""
        return self._file is not None or self._env is not None

    def read(self) -> str:
        """Without the white space around it. ConfigError, with words that do not hold it, when there is none or it has
        characters that no header may have."""
        if self._file is not None:
            where = f"the file {self._file}"
            try:
                text = self._file.read_text(encoding="utf-8")
            except OSError as error:
                raise ConfigError(
                    f"cannot read the {self._what}: {where}: {error.strerror}; the agent's user must be able to read it"
                ) from error
            except UnicodeDecodeError:
                raise ConfigError(f"cannot read the {self._what}: {where} is not UTF-8 text") from None
        else:
            where = f"the environment variable {self._env}"
            text = os.environ.get(self._env or "", "")
        secret = text.strip()
        if not secret:
            raise ConfigError(f"there is no {self._what}: {where} is empty or not set")
        if not secret.isprintable():
            raise ConfigError(f"the {self._what} in {where} has a line break or a control character in it")
        return secret
