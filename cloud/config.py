"""The worker as people write it: `WORKER.yaml` to `WorkerConfig`.

Attribute names are the YAML keys; durations are int µs, sizes int bytes. A listener off loopback without
credentials is refused unless the file says `insecure: true`: nobody opens one by accident.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from cloud.deploy.settings import RayConfig
from cloud.engine.settings import EngineConfig
from cloud.listeners.kinds import GrpcListenConfig, ZmqListenConfig
from cloud.store.kinds import SQLITE, StoreConfig
from pipelines.blocks import Block, FilePath, MisfitError, Name, Sha256
from pipelines.detectors.kinds import DetectorConfig
from pipelines.document import Document
from pipelines.errors import ConfigError
from pipelines.listen import HttpConfig
from pipelines.units import Duration, Size, duration, size

AUTO = "auto"
MOST_WAIT_US = 1_000_000
Threads = Annotated[int, Field(ge=1, le=64)] | Literal["auto"]


class ListenConfig(Block):
    """Where agents connect, by one way or both, and where people look."""

    zmq: ZmqListenConfig | None = Field(None, description="left out: no ZeroMQ")
    grpc: GrpcListenConfig | None = Field(None, description="left out: no gRPC")
    http: HttpConfig | None = Field(None, description="left out: no HTTP")

    @model_validator(mode="after")
    def _agents_can_connect(self) -> Self:
        if self.zmq is None and self.grpc is None:
            raise ValueError(
                "agents need a way in: zmq: {address: HOST:PORT}, grpc: {address: HOST:PORT} or both"
            )
        return self


class BatchConfig(Block):
    """Frames that run together. 1 is right on a CPU; `nearfar cloud WORKER.yaml --explain` measures what more would
    gain."""

    max: int = Field(1, ge=1, le=64, description="frames of one run, at most")
    wait: Duration = Field(
        duration("0ms"),
        description="how long a frame waits for company while the model is free; never so long that it would be late",
    )

    @field_validator("wait")
    @classmethod
    def _is_short(cls, wait_us: int) -> int:
        if wait_us > MOST_WAIT_US:
            raise ValueError("1s is the most: a frame that waits longer is late for any deadline")
        return wait_us

    @model_validator(mode="after")
    def _waits_for_somebody(self) -> Self:
        if self.wait and self.max == 1:
            raise MisfitError((("wait",), "a frame that runs alone waits for nobody: write max, too"))
        return self


class ModelConfig(Block):
    """One model the worker serves."""

    detector: DetectorConfig
    sha256: Sha256 | None = Field(None, description="64 hex digits: refuse another file")
    instances: int = Field(1, ge=1, le=64, description="copies that run side by side")
    threads: Threads = Field(
        "auto",
        description="threads of one run; auto: this model's share of the worker's `threads`, divided by its instances",
    )
    warm_up: int = Field(3, ge=0, le=1000, description="runs before the worker says it is ready")
    batch: BatchConfig | None = Field(None, description="left out: as `batch` of the worker says")

    not_built: ClassVar[Mapping[str, str]] = {
        "providers": "other providers than the CPU are not built yet; leave providers out",
    }

    @model_validator(mode="after")
    def _one_word_reaches_both_readers(self) -> Self:
        update: dict[str, Any] = {}
        for name in ("threads", "sha256"):
            own, inner = getattr(self, name), getattr(self.detector, name, None)
            if name not in type(self.detector).model_fields or own == inner or own is None:
                continue
            if own == AUTO:
                if name in self.detector.model_fields_set:
                    object.__setattr__(self, name, inner)  # as below
                continue
            if name in self.detector.model_fields_set:
                raise MisfitError(((name,), f"differs from detector.{name}; say it once"))
            update[name] = own
        if self.sha256 is not None and "sha256" not in type(self.detector).model_fields:
            raise MisfitError(
                (("sha256",), f"a {self.detector.kind} detector has no file to compare it with")
            )
        if update:
            # The block is still being made: this is where the one value reaches its second reader.
            object.__setattr__(self, "detector", self.detector.model_copy(update=update))
        return self


class DecodeConfig(Block):
    """The threads that decode pictures ahead of the models."""

    threads: Annotated[int, Field(ge=0, le=64)] | Literal["auto"] = Field(
        "auto",
        description="threads that decode pictures ahead while every instance works; 0: instances decode what they run; "
        "auto: 1 if the worker's `threads` leave one, else 0",
    )


class QueueConfig(Block):
    """Frames that wait for a model; beyond either bound they are rejected at once."""

    max_frames: int = Field(64, ge=1, le=100_000, description="of all agents and models")
    max_bytes: Size = Field(size("64MiB"), description="of their pictures as they were sent")


class PerAgentConfig(Block):
    """Absolute windows of one agent."""

    frames_in_flight: int = Field(8, ge=1, le=10_000, description="the most; fewer while the queue is long")
    bytes_in_flight: Size = Field(size("4MiB"), description="of pictures as they are sent")
    shrink_above: Duration = Field(
        duration("50ms"),
        description="frames_in_flight shrink alike for all agents, never below 1, while a new frame would wait longer "
        "than this (two runs of a slower model), and grow back below half of it",
    )
    streams: int = Field(16, ge=1, le=1000, description="an agent with more is refused")


class LimitsConfig(Block):
    """Judged before anything is allocated."""

    message: Size = Field(size("8MiB"), description="one message on the wire")
    pixels: int = Field(12_000_000, ge=1, description="width × height of a picture")
    decompressed: Size = Field(size("64MiB"), description="a decoded picture or an inflated batch")
    detections: int = Field(1000, ge=1, le=65_535, description="boxes in one result")
    batch_records: int = Field(4096, ge=1, description="records in one backfill batch")


class WorkerConfig(Block):
    """A worker: frames in, results out, one record per frame kept."""

    version: Literal[1]
    name: Name = Field(
        "worker", description="for people; in the ready line and in the metric nearfar_worker_info"
    )
    state_dir: FilePath = Field(Path(".nearfar/worker"), description="the default place of the record store")
    listen: ListenConfig
    models: Annotated[dict[Name, ModelConfig], Field(min_length=1)]
    default_model: str = Field(
        default_factory=lambda data: next(iter(data["models"])) if len(data["models"]) == 1 else "",
        description="for agents that name none; default: the only one",
    )
    processes: int = Field(
        0,
        ge=0,
        le=64,
        description="engine processes, each with every instance of every model; a model that crashes or hangs then "
        "takes no more with it than its engine. 0: models run in the worker's own process",
    )
    engine: EngineConfig = EngineConfig()
    threads: Annotated[int, Field(ge=1, le=1024)] | Literal["auto"] = Field(
        "auto",
        description="the budget for all models and decoding: instances × threads + decode.threads stay within it "
        "unless they are written out; auto: the cores this process may use",
    )
    decode: DecodeConfig = DecodeConfig()
    queue: QueueConfig = QueueConfig()
    batch: BatchConfig = Field(BatchConfig(), description="of every model that has none of its own")
    per_agent: PerAgentConfig = PerAgentConfig()
    limits: LimitsConfig = LimitsConfig()
    store: StoreConfig = Field(
        default_factory=lambda data: StoreConfig(url=_default_url(data["state_dir"])),
        description="default: records.db in state_dir",
    )
    drain: Duration = Field(duration("10s"), description="longest time from SIGTERM to exit")
    ray: RayConfig = RayConfig()

    not_built: ClassVar[Mapping[str, str]] = {
        "bulk": "settings of the bulk lane are not built yet; leave bulk out",
    }

    def instances_of(self, model: str) -> int:
        """Of a model, over all engine processes: each of them has every one."""
        return self.models[model].instances * max(1, self.processes)

    @field_validator("store", mode="before")
    @classmethod
    def _store_follows_state_dir(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, dict) and "url" not in value and "state_dir" in info.data:
            return {**value, "url": _default_url(info.data["state_dir"])}
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        names = ", ".join(self.models)
        if not self.default_model:
            raise MisfitError((("default_model",), f"several models are served: name one of {names}"))
        if self.default_model not in self.models:
            raise MisfitError((("default_model",), f"no such model; there is {names}"))
        if self.ray.max_replicas > 1 and self.store.kind == "sqlite":
            words = "several replicas share one store, and SQLite is a file of one host: give store.url "
            words += "postgresql+psycopg://USER@HOST/DATABASE"
            raise MisfitError((("ray", "max_replicas"), words))
        if self.engine != EngineConfig() and not self.processes:
            raise MisfitError(
                (("engine",), "there are no engine processes: write processes: 1 or more, or leave it out")
            )
        return self


def _default_url(state_dir: Path) -> str:
    return f"{SQLITE}{state_dir / 'records.db'}"


def load_worker(path: Path | str | None, overrides: Sequence[str] = ()) -> WorkerConfig:
    """The worker in a YAML file, after `path=value` overrides.

    Raises ConfigError with every problem, files that are not there looked for last; without a file, with a
    sentence and two examples: which model to serve cannot be guessed.
    """
    if path is None:
        raise ConfigError(
            "a worker needs a file that names its model, and which one cannot be guessed. Two to start from:\n"
            "  a rehearsal without a model:  "
            "{version: 1, listen: {zmq: {address: '127.0.0.1:7440'}}, "
            "models: {rehearsal: {detector: {kind: synthetic}}}}\n"
            "  faces (pip install 'nearfar[onnx]'):  "
            "{version: 1, listen: {zmq: {address: '127.0.0.1:7440'}}, "
            "models: {faces: {detector: {kind: centerface, model: centerface.onnx, input: 320x224}}}}\n"
            "Write one to worker.yaml, then run: nearfar cloud worker.yaml"
        )
    document = Document.read(path)
    document.override(overrides, WorkerConfig)
    config = document.validate(WorkerConfig)
    document.check_files(config)
    return config
