"""The blocks of a pipeline the edge owns: sources, sinks, links, the scheduler, and the kinds of each.

Registered by name; none of their modules is imported before it is used.
"""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator

from pipelines.blocks import Block, FilePath, InputFile, RungConfig
from pipelines.registry import Family, Kind
from pipelines.result import Priority
from pipelines.units import Duration, Extent, Fraction, duration

MIN_MARGIN_US = 3_000
_TLS = "credentials for links are not built yet; keep the link inside a network you trust, and leave them out"


class FileSourceConfig(Block):
    """A video file, played at its own pace or read as fast as frames are taken."""

    kind: Literal["file"]
    path: InputFile = Field(description="anything OpenCV opens")
    pace: Literal["real_time", "as_fast_as_possible"] = "real_time"
    fps: float | None = Field(
        None, gt=0, le=1000, description="frames per second; left out: what the file says"
    )
    loop: bool = Field(False, description="start again at the end")
    frames: Literal["latest", "every"] = Field(
        "latest",
        description="latest: a newer frame replaces a waiting one; every: pull-driven, none is replaced",
    )
    latency: Duration = Field(duration("0ms"), description="age of a frame when it becomes available")


class SyntheticSourceConfig(Block):
    """A moving square on noise. For rehearsals and tests."""

    kind: Literal["synthetic"]
    size: Extent = Field((640, 360), description="of the pictures")
    fps: float = Field(25.0, gt=0, le=1000, description="frames per second")
    pace: Literal["real_time", "as_fast_as_possible"] = "real_time"
    frames: Literal["latest", "every"] = "latest"
    latency: Duration = Field(duration("0ms"), description="age of a frame when it becomes available")
    count: int | None = Field(None, ge=1, description="frames until it ends; left out: never")
    seed: int = Field(0, ge=0, description="of the noise")


class StreamConfig(Block):
    source: Annotated[FileSourceConfig | SyntheticSourceConfig, Field(discriminator="kind")]
    priority: Priority = Field(
        Priority.NORMAL, strict=False, description="order in the outbox and in backfill"
    )

    not_built: ClassVar[Mapping[str, str]] = {
        "gate": "motion gates are not built yet; leave the gate out, every frame is answered",
        "source.kind=camera": "cameras are not built yet; use kind: file or synthetic",
        "source.kind=rtsp": "RTSP cameras are not built yet; use kind: file or synthetic",
    }


class JsonlSinkConfig(Block):
    """Answers as JSON lines, appended to a file."""

    kind: Literal["jsonl"]
    path: FilePath


class StdoutSinkConfig(Block):
    """Answers as JSON lines on standard output."""

    kind: Literal["stdout"]


SinkConfig = Annotated[JsonlSinkConfig | StdoutSinkConfig, Field(discriminator="kind")]


class LinkConfig(Block):
    """The way to one worker."""

    url: str = Field(description="zmq://HOST:PORT")

    not_built: ClassVar[Mapping[str, str]] = {
        "metered": "metered links are not built yet; leave metered out",
        "data_budget": "data budgets are not built yet; leave data_budget out",
        "tls": _TLS,
        "curve": _TLS,
        "token_file": _TLS,
    }

    @field_validator("url")
    @classmethod
    def _has_a_known_scheme(cls, url: str) -> str:
        scheme, separator, rest = url.partition("://")
        if scheme in ("grpc", "grpcs"):
            raise ValueError(f"gRPC links are not built yet; use zmq://{rest}")
        host, colon, port = rest.rpartition(":")
        if scheme not in [kind.name for kind in LINKS] or not separator:
            raise ValueError("must be zmq://HOST:PORT")
        if not host or not colon or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ValueError("must be zmq://HOST:PORT with a port of 1 to 65535")
        return url


class HedgeConfig(Block):
    """The near run that stands behind every offloaded frame."""

    start: Literal["late", "immediate", "never"] = Field(
        "late", description="late: at its reserved slot; immediate: with the offload; never: no hedge"
    )
    margin: Duration = Field(
        duration("4ms"), description="how long before the deadline an answer must be out"
    )

    @field_validator("margin")
    @classmethod
    def _covers_the_wake_up(cls, margin_us: int) -> int:
        if margin_us < MIN_MARGIN_US:
            raise ValueError("must be at least 3ms: a dispatcher wakes up that late")
        return margin_us


class SchedulerConfig(Block):
    """Who answers which frame."""

    policy: Literal["deadline", "threshold", "near_only", "far_only"] = Field(
        "deadline", description="deadline: by value per frame; threshold: by round trip alone"
    )
    ladder: Annotated[tuple[RungConfig, ...], Field(strict=False)] = (RungConfig(),)
    hedge: HedgeConfig = HedgeConfig()
    min_p: Fraction = Field(0.25, description="least probability of being on time that is worth sending")
    byte_price: float = Field(0.0015, ge=0, description="accuracy per kB")

    not_built: ClassVar[Mapping[str, str]] = {
        "policy=confidence": "the confidence policy is not built yet; use deadline",
    }

    @field_validator("ladder")
    @classmethod
    def _has_one_rung(cls, ladder: tuple[RungConfig, ...]) -> tuple[RungConfig, ...]:
        if len(ladder) != 1:
            raise ValueError("ladders of several rungs are not built yet; write exactly one")
        return ladder


SOURCES = Family(
    "source",
    Kind(
        name="file",
        config=FileSourceConfig,
        target="edge.capture.file:FileSource",
        words="a video file, in real time or as fast as possible",
    ),
    Kind(
        name="synthetic",
        config=SyntheticSourceConfig,
        target="edge.capture.synthetic:SyntheticSource",
        words="a moving square on noise",
    ),
)
SINKS = Family(
    "sink",
    Kind(
        name="jsonl",
        config=JsonlSinkConfig,
        target="edge.sinks.jsonl:JsonlSink",
        words="answers as JSON lines, appended to a file",
    ),
    Kind(
        name="stdout",
        config=StdoutSinkConfig,
        target="edge.sinks.stdout:StdoutSink",
        words="answers as JSON lines on standard output",
    ),
)
LINKS = Family(
    "link",
    Kind(name="zmq", config=LinkConfig, target="edge.links.zmq:ZmqLink", words="ZeroMQ: zmq://HOST:PORT"),
)

POLICIES = Family(
    "policy",
    *(
        Kind(name=name, config=SchedulerConfig, target=f"edge.scheduling.policies:{name}", words=words)
        for name, words in {
            "deadline": "far when its value beats near by the deadline, near behind every offloaded frame",
            "threshold": "far while the round trip is inside the budget, near otherwise; no hedge",
            "near_only": "the gateway's detector answers every frame",
            "far_only": "the cloud answers every frame; what it cannot answer in time is missed",
        }.items()
    ),
)
