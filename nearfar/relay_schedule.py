"""What a rehearsed link does when: a YAML list of steps, times from the start.

- {at: 0s, rtt_ms: 20, rate_mbit: 10}
- {at: 10s, rtt_ms: 200}
- {at: 20s, state: stall}        # pass | stall | reset
- {at: 30s, state: pass}
"""

from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import Field, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from pipelines.blocks import Block
from pipelines.errors import ConfigError, DataFileError, Problem
from pipelines.units import Duration

EXAMPLE = "- {at: 10s, rtt_ms: 200}"


class Step(Block):
    """At `at`, change what is given; the rest stays. `rate_mbit` 0 = no limit."""

    at: Duration
    rtt_ms: float | None = Field(None, ge=0, le=60_000)
    rate_mbit: float | None = Field(None, ge=0, le=1_000_000)
    state: Literal["pass", "stall", "reset"] | None = None


Steps = TypeAdapter(Annotated[list[Step], Field(min_length=1)])


def _problem(path: Path, fault: ErrorDetails) -> Problem:
    """One fault in words: which step, which key."""
    place = [f"step {part + 1}" if isinstance(part, int) else str(part) for part in fault["loc"]]
    found = "" if fault["type"] == "missing" else repr(fault["input"])[:80]
    return Problem(fault["msg"], path=", ".join(place), file=str(path), found=found)


def load_schedule(path: Path) -> list[Step]:
    """The steps in order of time. Raises ConfigError naming the file."""
    try:
        steps = Steps.validate_python(yaml.safe_load(path.read_text()))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is no YAML: {error}\nwrite steps such as {EXAMPLE}") from error
    except ValidationError as error:
        raise DataFileError(*(_problem(path, fault) for fault in error.errors())) from error
    return sorted(steps, key=lambda step: step.at)
