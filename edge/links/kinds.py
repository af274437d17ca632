"""The kinds of link, by the scheme of their URL, and what a configuration may say about a link."""

import re
from collections.abc import Mapping
from typing import ClassVar, Self

from pydantic import Field, field_validator, model_validator

from pipelines.blocks import Block, MisfitError
from pipelines.registry import Family, Kind
from pipelines.units import Size

_TLS = "credentials for links are not built yet; keep the link inside a network you trust, and leave them out"
_HOST = re.compile(r"[\w.-]+|\[[0-9A-Fa-f:.]+(%[\w.-]+)?\]")


class DataBudgetConfig(Block):
    """What may be sent over a link, frames, pings and backfill together; it refills evenly."""

    per_hour: Size | None = Field(None, description="left out: no bound by the hour")
    per_day: Size | None = Field(None, description="left out: no bound by the day")

    @model_validator(mode="after")
    def _bounds_something(self) -> Self:
        for name in ("per_hour", "per_day"):
            if getattr(self, name) == 0:
                raise MisfitError(((name,), "must be above 0; to send nothing, leave the link out"))
        if self.per_hour is None and self.per_day is None:
            raise MisfitError(((), "needs per_hour, per_day or both"))
        return self


class LinkConfig(Block):
    """The way to one worker."""

    url: str = Field(description="zmq://HOST:PORT or grpc://HOST:PORT")
    metered: bool = Field(
        False,
        description="bytes cost money: used for what no other link can do as well, asked rarely while it is bad",
    )
    data_budget: DataBudgetConfig | None = Field(
        None, description="spent, nothing but pings is sent until it refills; left out: no bound"
    )

    not_built: ClassVar[Mapping[str, str]] = {
        "tls": _TLS,
        "curve": _TLS,
        "token_file": _TLS,
    }

    @field_validator("url")
    @classmethod
    def _has_a_known_scheme(cls, url: str) -> str:
        scheme, separator, rest = url.partition("://")
        if scheme == "grpcs":
            raise ValueError(f"{_TLS}: grpc://{rest.rpartition('@')[2]}")
        if "@" in url:
            raise ValueError(_TLS)
        if scheme not in [kind.name for kind in LINKS] or not separator:
            raise ValueError("must be zmq://HOST:PORT or grpc://HOST:PORT")
        host, _, port = rest.rpartition(":")
        if not (port.isascii() and port.isdecimal()) or not 0 < int(port) < 65536:
            raise ValueError(f"must be {scheme}://HOST:PORT with a port of 1 to 65535")
        if not _HOST.fullmatch(host):
            raise ValueError(
                f"must be {scheme}://HOST:PORT, HOST a name or an address: no path, no query, no space, "
                "an IPv6 address in brackets"
            )
        return url


LINKS = Family(
    "link",
    Kind(name="zmq", config=LinkConfig, target="edge.links.zmq:ZmqLink", words="ZeroMQ: zmq://HOST:PORT"),
    Kind(
        name="grpc",
        config=LinkConfig,
        target="edge.links.grpc:GrpcLink",
        words="gRPC: grpc://HOST:PORT, for networks that pass HTTP/2",
        extra="grpc",
        needs=("grpc",),
    ),
)
