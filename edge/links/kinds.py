"""The kinds of link, by the scheme of their URL, and what a configuration may say about a link."""

import re
from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field, field_validator

from pipelines.blocks import Block
from pipelines.registry import Family, Kind

_TLS = "credentials for links are not built yet; keep the link inside a network you trust, and leave them out"
_HOST = re.compile(r"[\w.-]+|\[[0-9A-Fa-f:.]+(%[\w.-]+)?\]")


class LinkConfig(Block):
    """The way to one worker."""

    url: str = Field(description="zmq://HOST:PORT or grpc://HOST:PORT")

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
