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

from pipelines.blocks import Block
from pipelines.errors import ConfigError
from pipelines.units import Duration


class Step(Block):
    """At `at`, change what is given; the rest stays. `rate_mbit` 0 = no limit."""

    at: Duration
    rtt_ms: float | None = Field(None, ge=0)
    rate_mbit: float | None = Field(None, ge=0)
    state: Literal["pass", "stall", "reset"] | None = None


Steps = TypeAdapter(Annotated[list[Step], Field(min_length=1)])


def load_schedule(path: Path) -> list[Step]:
    """The steps in order of time. Raises ConfigError naming the file."""
    try:
        steps = Steps.validate_python(yaml.safe_load(path.read_text()))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except (yaml.YAMLError, ValidationError) as error:
        raise ConfigError(f"{path} is no schedule: {error}") from error
    return sorted(steps, key=lambda step: step.at)
