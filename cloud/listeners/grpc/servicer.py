"""The methods of `nearfar.v1.Inference`, for a gRPC server that is not ours: Ray Serve's, on every node of a cluster.

Messages cross as bytes both ways, as our own listener has them; what serves a stream is the business of that server,
which replaces the handlers named here by its own.
"""

from typing import Any

import grpc

from protos.wire import envelope


def add_lanes(servicer: Any, server: Any) -> None:
    """What generated code calls `add_InferenceServicer_to_server`, with one stream per lane."""
    handlers: dict[str, Any] = {
        name: grpc.stream_stream_rpc_method_handler(getattr(servicer, name))
        for name in (path.rpartition("/")[2] for path in envelope.METHODS.values())
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(envelope.SERVICE, handlers),))
