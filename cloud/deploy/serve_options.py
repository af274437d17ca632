"""What Serve is told about a worker, as plain values: its ingress, its deployment, and the file of `serve deploy`.

Imports no Ray: the file is written where none is installed. Only the path of the worker's file goes in, so no
password does; the file must be at that path on every node, as its models must.
"""

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cloud.config import AUTO, WorkerConfig
from pipelines.errors import ConfigError, Problem

APPLICATION, DEPLOYMENT = "nearfar", "worker"
ROUTE = "/nearfar"  # without one Serve leads no gRPC call there either
SERVICER = "cloud.listeners.grpc.servicer:add_lanes"
BUILDER = "cloud.deploy.application:application"
POLICY = "cloud.deploy.scaling:ByBusyness"
RAY_OWN_PORTS = range(10002, 20000)
_STREAMS_PER_REPLICA = 2048  # more than a replica takes, so that it says so itself, in words
LOGGING = {"log_level": "WARNING", "enable_access_log": False}
"""Of Serve itself: else each stream and each decision is a line."""
INGRESS = {"every_node": "EveryNode", "head": "HeadOnly"}
_USER = re.compile(r"://[^@/\"]*@")
_AFTER_DRAIN_S = 5.0  # for Serve to see that nothing is left to wait for


def must_fit(config: WorkerConfig) -> int:
    """The port of the ingress. ConfigError, with the place in the file, for what cannot be kept behind Serve."""
    problems = []
    if config.listen.zmq is not None:
        words = "behind Ray Serve agents come by gRPC alone: leave it out, or run a worker without --deploy"
        problems.append(Problem(words, "listen.zmq"))
    if config.listen.grpc is None:
        words = "--deploy ray needs a port for its gRPC ingress: {address: '0.0.0.0:20443', insecure: true}"
        raise ConfigError(*problems, Problem(words, "listen.grpc"))
    host, _, port = config.listen.grpc.address.rpartition(":")
    if host not in ("0.0.0.0", "[::]"):  # noqa: S104 - it is compared, and refused otherwise
        words = "Serve's ingress listens on every interface of every node, so say so"
        problems.append(
            Problem(words, "listen.grpc.address", found=host, allowed="0.0.0.0 with insecure: true")
        )
    if int(port) == 0 or int(port) in RAY_OWN_PORTS or int(port) == 65535:
        words = "Ray's own workers use ports 10002 to 19999, and 0 would be another port on every node"
        problems.append(Problem(words, "listen.grpc.address", found=port, allowed="20000 and more"))
    if problems:
        raise ConfigError(*problems)
    return int(port)


def arguments(config: WorkerConfig, worker: Path, overrides: Sequence[str]) -> dict[str, Any]:
    """What the builder of the application is given. Serve replaces all replicas when it differs, so `version` follows
    from what one reads at its start, and not from how many there are or how long they may take to end; nor from a
    password."""
    read = _USER.sub("://", config.model_dump_json(exclude={"ray", "drain"}))
    version = hashlib.sha256(read.encode()).hexdigest()[:16]
    return {"worker": str(worker.absolute()), "set": list(overrides), "version": version}


def http_options(config: WorkerConfig) -> dict[str, Any]:
    """Serve has no gRPC ingress without one of HTTP: on loopback, the port beside. It answers `/-/healthz`."""
    return {"host": "127.0.0.1", "port": must_fit(config) + 1}


def grpc_options(config: WorkerConfig) -> dict[str, Any]:
    """Of the ingress on every node. No time limit for a request: it would be one for the life of a stream."""
    return {"port": must_fit(config), "grpc_servicer_functions": [SERVICER]}


def cores_of(config: WorkerConfig) -> float:
    """What a replica takes of its node, by Ray's books: what the file says, else one for each run at a time."""
    if config.ray.cpus:
        return config.ray.cpus
    if config.threads != AUTO:
        return float(config.threads)
    return float(
        sum(
            config.instances_of(name) * (1 if model.threads == AUTO else int(model.threads))
            for name, model in config.models.items()
        )
    )


def too_many(config: WorkerConfig, cores: float) -> str:
    """Why the least number of replicas has no place in a cluster of so many cores, in words."""
    least, each = config.ray.min_replicas, cores_of(config)
    if least * each <= cores:
        return ""
    need = "replica needs" if least == 1 else "replicas need"
    return f"{least} {need} {each:g} cores each, more than the {cores:g} there are"


def not_our_ingress(config: WorkerConfig, *, port: int, servicers: Sequence[str]) -> str:
    """Why agents would not be served by the ingress a running Serve has, in words; it keeps the one it began with."""
    wanted = must_fit(config)
    if SERVICER in servicers and port == wanted:
        return ""
    have = f"port {port}, {', '.join(servicers)}" if servicers else "no gRPC at all"
    return (
        f"Serve runs on this Ray already, with an ingress that is not this worker's ({have}; wanted: port {wanted}, "
        f"{SERVICER}), and it cannot be changed while it runs: end it (serve shutdown), or start it with the "
        "grpc_options of the file that --write-config writes"
    )


def deployment_options(config: WorkerConfig) -> dict[str, Any]:
    """Of the one deployment, as Serve's file and its Python interface both have them."""
    ray = config.ray
    out: dict[str, Any] = {
        "max_ongoing_requests": _STREAMS_PER_REPLICA,
        "graceful_shutdown_wait_loop_s": 0.5,
        "graceful_shutdown_timeout_s": config.drain / 1e6 + _AFTER_DRAIN_S,
        "health_check_period_s": 5.0,
        "logging_config": LOGGING,
        "ray_actor_options": {"num_cpus": cores_of(config)},
    }
    if ray.min_replicas == ray.max_replicas:
        return {**out, "num_replicas": ray.min_replicas}
    scaling = {
        "min_replicas": ray.min_replicas,
        "max_replicas": ray.max_replicas,
        "upscale_delay_s": ray.up_after / 1e6,
        "downscale_delay_s": ray.down_after / 1e6,
        "policy": {"policy_function": POLICY, "policy_kwargs": {"busy": ray.busy}},
    }
    return {**out, "autoscaling_config": scaling}


def serve_file(config: WorkerConfig, worker: Path, overrides: Sequence[str]) -> dict[str, Any]:
    """The document `serve deploy` takes."""
    for item in overrides:
        if item.partition("=")[0].strip().startswith("store"):
            raise ConfigError(
                f"--set {item.partition('=')[0]} would be written into the file, and shown by Ray's dashboard, "
                f"with whatever password it holds: write it in {worker.name}"
            )
    return {
        "proxy_location": INGRESS[config.ray.ingress],
        "logging_config": LOGGING,
        "http_options": http_options(config),
        "grpc_options": grpc_options(config),
        "applications": [
            {
                "name": APPLICATION,
                "route_prefix": ROUTE,
                "import_path": BUILDER,
                "args": arguments(config, worker, overrides),
                "deployments": [{"name": DEPLOYMENT, **deployment_options(config)}],
            }
        ],
    }
