"""Errors named by what the caller must do next.

`Retryable`: the same call may succeed later. `Rejected`: this item will never be accepted, go on with
the next. `Fatal`: stop. `ConfigError`: a person has to change a file. Foreign errors are mapped to one
of these once, at the boundary where they enter.
"""

from dataclasses import dataclass


class NearfarError(Exception):
    """Base of every error this project raises on purpose."""


class Retryable(NearfarError):
    """The operation failed for now; trying again later is right."""


class Rejected(NearfarError):
    """This item is refused for good; the connection or process is still sound."""


class Fatal(NearfarError):
    """Nothing more can be done here; the process should stop with the message."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong in a configuration file.

    `path` is dotted (`streams.door.source.kind`); `line` and `column` count from 1, 0 when unknown.
    """

    message: str
    path: str = ""
    file: str = ""
    line: int = 0
    column: int = 0
    found: str = ""
    allowed: str = ""
    nearest: str = ""

    @property
    def placed(self) -> bool:
        """Whether it lies in a file or at a path of one; else it is about what was asked for, not about a file."""
        return bool(self.file or self.path)

    def __str__(self) -> str:
        where = self.file or "configuration"
        if self.line:
            where += f":{self.line}:{self.column}"
        text = (
            f"{where}: {self.path + ': ' if self.path else ''}{self.message}" if self.placed else self.message
        )
        if self.found:
            text += f"\n    found:   {self.found}"
        if self.allowed:
            text += f"\n    allowed: {self.allowed}"
        if self.nearest:
            text += f"\n    did you mean: {self.nearest}"
        return text


class ConfigError(NearfarError):
    """A configuration a person has to mend; `problems` lists every fault that was found."""

    def __init__(self, *problems: Problem | str) -> None:
        self.problems = tuple(Problem(p) if isinstance(p, str) else p for p in problems)
        super().__init__("\n".join(str(p) for p in self.problems))


class DataFileError(ConfigError):
    """A file of data a person has to mend, such as a trace: `nearfar check` cannot read it."""
