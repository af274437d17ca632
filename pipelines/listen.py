"""Where a process listens, as people write it: `HOST:PORT`, on loopback unless they say otherwise.

A listener that asks for no credentials is refused off loopback unless the file says `insecure: true`: nobody opens
one by accident. The agent and the worker say it in the same words.
"""

from collections.abc import Mapping
from typing import ClassVar, Self

from pydantic import Field, field_validator, model_validator

from pipelines.blocks import Block, MisfitError

LISTENER_CREDENTIALS = "credentials for listeners are not built yet; bind to loopback or say `insecure: true`"
_LOOPBACK = ("localhost", "::1")


class AddressConfig(Block):
    """Where a listener binds. Port 0 = any; the ready line names it."""

    address: str = Field(description="HOST:PORT; port 0 = any, named by the ready line")
    insecure: bool = Field(False, description="true: listen off loopback without credentials")

    @field_validator("address")
    @classmethod
    def _is_host_and_port(cls, address: str) -> str:
        host, colon, port = address.rpartition(":")
        if not colon or not host or not port.isdecimal() or int(port) > 65535:
            raise ValueError("must be HOST:PORT with a port of 0 to 65535")
        if ":" in host and not (host.startswith("[") and host.endswith("]")):
            raise ValueError("an IPv6 host goes in brackets: [::1]:7440")
        return address

    @model_validator(mode="after")
    def _is_guarded(self) -> Self:
        host = self.address.rpartition(":")[0].strip("[]")
        if not self.insecure and host not in _LOOPBACK and not host.startswith("127."):
            words = f"{host} is reachable from outside and this listener asks for no credentials: bind to "
            words += "127.0.0.1, or say `insecure: true` inside a network you trust"
            raise MisfitError((("address",), words))
        return self


class HttpConfig(AddressConfig):
    """`/healthz`, `/readyz` and `/metrics`."""

    not_built: ClassVar[Mapping[str, str]] = {
        "tls": LISTENER_CREDENTIALS,
        "tokens_file": LISTENER_CREDENTIALS,
    }
