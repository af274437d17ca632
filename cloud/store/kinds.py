"""The kinds of record store, told apart by their URL, and how a worker's file describes one."""

from pathlib import Path
from typing import Literal

from pydantic import ConfigDict, Field, ValidationInfo, field_validator

from pipelines.blocks import Block, FilePath
from pipelines.registry import Family, Kind
from pipelines.units import Duration, Fraction, Size, duration, size

SQLITE = "sqlite:///"
_POSTGRES = "postgresql+psycopg://"
_LEAST_KEEP_US = duration("1h")


Keep = Literal["none", "hard", "all"]
"""Which live pictures."""


class PayloadsConfig(Block):
    """Where pictures are kept beside their records, each content once."""

    path: FilePath = Field(description="a folder; workers that share a store share it too")
    max_bytes: Size = Field(
        size("10GiB"), description="beyond it the lowest priority goes first, the oldest of it first"
    )
    keep: Keep = Field(
        "hard",
        description="live pictures to keep: hard = high priority, an unsure box, or a result after its time",
    )
    unsure_below: Fraction = Field(0.5, description="a box with a lower score makes a picture hard")


class StoreConfig(Block):
    """The record store: one row per frame."""

    # The default needs the worker's state_dir, so the worker fills it in; nobody has to write it.
    model_config = ConfigDict(json_schema_extra=lambda schema: schema.pop("required", None))

    url: str = Field(
        repr=False,  # it may hold a password
        description="sqlite:///FILE or postgresql+psycopg://USER@HOST/DATABASE; default: records.db in state_dir",
    )
    commit_every: Duration = Field(
        duration("20ms"),
        description="the least time between two commits, and the most while somebody waits for one; for live results of agents, who do not, up to 1.75 times as long where commits would take a twentieth of it, and up to 160ms while fewer than eight rows wait",
    )
    keep: Duration | None = Field(
        None, description="records and pictures that arrived earlier than this are pruned; left out: never"
    )
    payloads: PayloadsConfig | None = Field(None, description="left out: no pictures are kept")

    @field_validator("keep")
    @classmethod
    def _is_an_hour_at_least(cls, keep_us: int | None) -> int | None:
        if keep_us is not None and keep_us < _LEAST_KEEP_US:
            raise ValueError("records are kept for 1h at least")
        return keep_us

    @field_validator("url")
    @classmethod
    def _is_a_file_or_a_server(cls, url: str, info: ValidationInfo) -> str:
        if url.startswith("postgres"):
            if not url.startswith(_POSTGRES):
                raise ValueError(f"write {_POSTGRES}USER@HOST/DATABASE")
            return url
        file = url.removeprefix(SQLITE)
        if not url.startswith(SQLITE) or not file or file.startswith(":"):
            raise ValueError(
                f"must be sqlite:///FILE (sqlite:////ABSOLUTE/FILE) or {_POSTGRES}USER@HOST/DATABASE"
            )
        return SQLITE + str(Path((info.context or {}).get("directory", Path())) / file)

    @property
    def kind(self) -> str:
        """Its name among `STORES`."""
        return "sqlite" if self.url.startswith(SQLITE) else "postgresql"


STORES = Family(
    "store",
    Kind(
        name="sqlite",
        config=StoreConfig,
        target="cloud.store.sql.sqlite:SqliteDatabase",
        words="a SQLite file, for the workers of one host",
        extra="cloud",
        needs=("sqlalchemy",),
    ),
    Kind(
        name="postgresql",
        config=StoreConfig,
        target="cloud.store.sql.postgres:PostgresDatabase",
        words="PostgreSQL, for workers on several hosts",
        extra="postgres",
        needs=("sqlalchemy", "psycopg"),
    ),
)
