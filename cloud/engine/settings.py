"""How engine processes are watched, as people write it: `engine` of WORKER.yaml."""

from pydantic import Field

from pipelines.blocks import Block
from pipelines.units import Duration, duration


class EngineConfig(Block):
    """The engine processes, where there are any."""

    hang_after: Duration | None = Field(
        None,
        ge=100_000,
        description="a run that takes longer is held to hang: its engine is killed and started again; "
        "left out: 20 × the 99th percentile of the last 200 runs, and 2s at least",
    )
    start_within: Duration = Field(
        duration("2m"),
        ge=1_000_000,
        description="an engine that has not loaded its models by then is killed and started again",
    )
