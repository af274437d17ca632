"""The ways in for agents, what a file may say about each, and where its code is: resolved only when one is used."""

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field

from pipelines.listen import LISTENER_CREDENTIALS, AddressConfig
from pipelines.registry import Family, Kind


class ZmqListenConfig(AddressConfig):
    """The ZeroMQ listener agents connect to."""

    not_built: ClassVar[Mapping[str, str]] = {
        "curve": LISTENER_CREDENTIALS,
        "tokens_file": LISTENER_CREDENTIALS,
    }


class GrpcListenConfig(AddressConfig):
    """The gRPC listener agents connect to; `Infer` for simple clients and `grpc.health.v1` answer there too."""

    reflection: bool = Field(
        False, description="true: clients such as grpcurl may list what there is; extra `reflection`"
    )

    not_built: ClassVar[Mapping[str, str]] = {
        "tls": LISTENER_CREDENTIALS,
        "tokens_file": LISTENER_CREDENTIALS,
    }


LISTENERS = Family(
    "listener",
    Kind(
        name="zmq",
        config=ZmqListenConfig,
        target="cloud.listeners.zmq.listener:ZmqListener",
        words="ZeroMQ: one port for the live and the bulk lane",
    ),
    Kind(
        name="grpc",
        config=GrpcListenConfig,
        target="cloud.listeners.grpc.listener:GrpcListener",
        words="gRPC: one stream per lane, Infer for simple clients, grpc.health.v1",
        extra="grpc",
        needs=("grpc", "grpc_health"),
    ),
)

REFLECTION = Kind(
    name="reflection",
    config=GrpcListenConfig,
    target="cloud.listeners.grpc.reflection:ReflectionCalls",
    words="lists what the gRPC listener offers, for clients without the contract",
    extra="reflection",
    needs=("grpc_reflection",),
)
