"""How a worker runs on a Ray cluster, as people write it: `ray` of WORKER.yaml."""

from typing import Literal, Self

from pydantic import Field, model_validator

from pipelines.blocks import Block, MisfitError
from pipelines.units import Duration, Fraction, duration


class RayConfig(Block):
    """Replicas behind Ray Serve, with `nearfar cloud --deploy ray`; without it nothing here matters."""

    min_replicas: int = Field(1, ge=1, le=1000, description="replicas there are at least")
    max_replicas: int = Field(
        default_factory=lambda data: int(data.get("min_replicas", 1)),
        ge=1,
        le=1000,
        description="replicas there are at most; default: min_replicas. More than 1 share a PostgreSQL store",
    )
    cpus: float | None = Field(
        None,
        gt=0,
        le=1024,
        description="cores a replica takes of its node; default: `threads` of the worker, else instances × threads of "
        "all models and engine processes",
    )
    ingress: Literal["every_node", "head"] = Field(
        "every_node", description="nodes that agents can connect to: each, or the cluster's first"
    )
    busy: Fraction = Field(
        0.7, description="share of the models' time in use that replicas are added or removed for"
    )
    up_after: Duration = Field(
        duration("10s"), description="for how long it must be busier before one is added"
    )
    down_after: Duration = Field(
        duration("5m"), description="for how long it must be less busy before one is removed"
    )
    stream_for: Duration = Field(
        duration("10m"),
        description="a stream this old ends between two frames, so that its agent finds replicas added since",
    )

    @model_validator(mode="after")
    def _least_is_no_more_than_most(self) -> Self:
        if self.max_replicas < self.min_replicas:
            raise MisfitError((("max_replicas",), f"is less than min_replicas ({self.min_replicas})"))
        if not self.busy:
            raise MisfitError((("busy",), "must be more than 0%"))
        if self.stream_for < duration("10s"):
            raise MisfitError(
                (("stream_for",), "must be 10s or more: each end costs its agent a reconnection")
            )
        return self
