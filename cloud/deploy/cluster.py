"""A worker on Ray Serve, run in the foreground: Ray started or joined, the application deployed, and taken down again.

Ray that was started here ends here, with everything on it; of one that was joined nothing but our application is
taken down. Ray's processes end with the thread that started them, so all of it is done on one that stays.
"""

import contextlib
import logging
import socket
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from cloud.config import WorkerConfig
from cloud.deploy import serve_options
from cloud.deploy.exposition import together
from cloud.store.records import open_store
from pipelines.errors import ConfigError, Fatal, Problem, Retryable

log = logging.getLogger(__name__)

_ASK_WITHIN_S = 5.0
_ASK_FIRST_WITHIN_S = 30.0
_STOP_WITHIN_S = 30.0  # beside the drain of the replicas
_LOOK_S = 0.5


class RayCluster:
    """`address` of a Ray to join (`auto`, `HOST:PORT`, `ray://…`); empty: start one for this machine."""

    def __init__(
        self, config: WorkerConfig, *, worker: Path, overrides: Sequence[str], address: str = ""
    ) -> None:
        self._config = config
        serve_options.must_fit(config)
        self._arguments = serve_options.arguments(config, worker, overrides)
        self._address = address
        self._handle: Any = None
        self._joined = False
        self._application: Any = None
        self._gcs = ""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="nearfar-ray")

    def join(self) -> None:
        """Start Ray or connect to it. Raises ConfigError or Fatal, in words. Ray takes over SIGTERM: take it back.

        The store is opened first: replicas that cannot would be started again and again before anybody hears why.
        """
        self._must_have_store()
        self._thread.submit(self._join).result()

    def deploy(self) -> None:
        """Put the worker there, and wait until every replica there should be is ready. Raises Fatal, in words."""
        self._thread.submit(self._deploy).result()

    def stop(self) -> bool:
        """Take the application down, each replica drained; False if Ray could not be told. Safe to call twice."""
        until_s = time.monotonic() + self._config.drain / 1e6 + _STOP_WITHIN_S
        stopping = self._thread.submit(self._stop)
        while not wait([stopping], _LOOK_S).done:
            if self._joined and self._gcs and not _answers(self._gcs):  # who waits for it would wait for ever
                log.error(
                    "Ray ended before its replicas were drained: whoever signals the whole group or service ends Ray's "
                    "processes, too. Signal this one alone (systemd: KillMode=mixed)"
                )
                return False
            if time.monotonic() > until_s:
                log.error("Ray did not take the application down in time")
                return False
        return stopping.result()

    def _must_have_store(self) -> None:
        """Where it is to be reached from here: a file may be another node's, and so may we be far from the cluster."""
        if self._address.startswith("ray://") or (self._address and self._config.store.kind == "sqlite"):
            return
        try:
            open_store(self._config.store.url).close()
        except Retryable as error:
            words = f"{error}; nothing was deployed, since no replica could begin: mend store.url, or start the server"
            raise Fatal(words) from error

    def _join(self) -> None:
        try:
            import ray  # noqa: PLC0415 - an extra, and seconds to load

            from cloud.deploy.application import application  # noqa: PLC0415
        except ImportError as error:
            words = f"--deploy ray needs all of Ray Serve ({error}); run: pip install 'nearfar[ray]'"
            raise ConfigError(words) from error

        self._application = application(self._arguments)
        try:
            ray.init(
                address=self._address or "local",
                include_dashboard=None if self._address else False,
                logging_level=max(logging.getLogger().level, logging.ERROR),
            )
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise Fatal(f"no Ray at {self._address or 'this machine'}: {error}") from error
        self._joined = True
        self._gcs = str(ray.get_runtime_context().gcs_address)
        cores = float(ray.cluster_resources().get("CPU", 0.0))
        if words := serve_options.too_many(self._config, cores):
            if not self._address:
                self._leave()
                raise ConfigError(Problem(words, "ray.cpus"))
            log.warning("%s; replicas wait until the cluster has grown", words)

    def _deploy(self) -> None:
        from ray import serve  # noqa: PLC0415 - loaded by `join`

        try:
            serve.start(
                proxy_location=serve_options.INGRESS[self._config.ray.ingress],
                http_options=serve_options.http_options(self._config),
                grpc_options=serve_options.grpc_options(self._config),
                logging_config=serve_options.LOGGING,
            )
            self._must_be_ours()
            logging.getLogger("ray.serve").setLevel(logging.getLogger().level)
            handle = serve.run(
                self._application, name=serve_options.APPLICATION, route_prefix=serve_options.ROUTE
            )
            # No thread of ours runs an event loop, which a handle of Serve's fast path would want.
            handle._init(_run_router_in_separate_loop=True)  # noqa: SLF001 - Serve offers no other way to say it
            self._handle = handle
        except ConfigError:
            self._leave()
            raise
        except Exception as error:
            with contextlib.suppress(Exception):  # it may not be there; what matters is said below
                serve.delete(serve_options.APPLICATION)
            self._leave()
            raise Fatal(f"the worker could not be deployed: {error}") from error

    @staticmethod
    def _controller() -> Any:
        from ray.serve import context  # noqa: PLC0415 - loaded by `join`

        return context._get_global_client()._controller  # noqa: SLF001 - what `serve status` itself asks

    def _must_be_ours(self) -> None:
        """Another's Serve may run there, whose ingress knows nothing of agents."""
        import ray  # noqa: PLC0415 - loaded by `join`

        has = ray.get(self._controller().get_grpc_config.remote(), timeout=_ASK_FIRST_WITHIN_S)
        words = serve_options.not_our_ingress(
            self._config, port=has.port, servicers=has.grpc_servicer_functions
        )
        if words:
            raise ConfigError(words)

    def _stop(self) -> bool:
        if not self._joined:
            return True
        from ray import serve  # noqa: PLC0415 - loaded by `join`

        self._handle = None
        try:
            serve.delete(serve_options.APPLICATION)
            if not self._address:
                serve.shutdown()
        except Exception:
            log.exception("the application could not be taken down")
            return False
        finally:
            self._leave()
        return True

    def _leave(self) -> None:
        """Of a Ray started here this is the end."""
        import ray  # noqa: PLC0415 - loaded by `join`

        self._joined = False
        ray.shutdown()

    def ready_fields(self) -> dict[str, Any]:
        """What the ready line says. The ingress is on every node, at this port."""
        assert self._config.listen.grpc is not None  # noqa: S101 - `must_fit` has looked
        address = self._config.listen.grpc.address
        fields = {"name": self._config.name, "grpc": f"grpc://{address}", "ray": self._gcs}
        told = self._ask("store_fields", _ASK_FIRST_WITHIN_S)
        return {**fields, **(told[0] if told else {}), "replicas": len(told)}

    def metrics_text(self) -> bytes:
        """Of all replicas, each sample with the label `replica`."""
        return together(dict(self._ask("metrics"))).encode()

    def not_ready(self) -> list[str]:
        """Why no agent should be sent here, in words; empty while a replica is ready."""
        if self._handle is None:
            return ["it is not deployed"]
        try:
            told: list[list[str]] = self._ask("not_ready")
        except Exception as error:  # noqa: BLE001 - whatever Ray says, it is a reason
            return [f"Ray does not answer: {error}"]
        if any(not reasons for reasons in told):
            return []
        return [words for reasons in told for words in reasons] or ["no replica runs"]

    def _ask(self, method: str, within_s: float = _ASK_WITHIN_S) -> list[Any]:
        """What each replica says."""
        handle = self._handle
        return [] if handle is None else list(handle.broadcast(method).results(timeout_s=within_s))


def _answers(address: str) -> bool:
    """Whether anybody listens at HOST:PORT; one that is only slow does."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _ASK_WITHIN_S).close()
    except ConnectionRefusedError:
        return False
    except OSError:
        return True
    return True
