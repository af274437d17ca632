"""A worker on a real Ray of this machine, as `nearfar cloud --deploy ray` starts it, and agents against it.

It is started in the background, as its users' process managers do: it and its replicas, which come and go, are not
processes of a test.
"""

import json
import os
import secrets
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil

from cloud.store.records import open_store
from tests.support.eventually import eventually
from tests.support.rig import free_port

REPLICA = "ray::ServeReplica:nearfar:worker"
START_WITHIN_S = 90.0
WORKER = """\
version: 1
name: ray-worker
state_dir: {root}/state
listen:
  grpc: {{address: "0.0.0.0:{port}", insecure: true}}
  http: {{address: "127.0.0.1:0"}}
models:
  thing:
    detector: {{kind: synthetic, delay: 10ms, labels: [thing]}}
store: {{url: "{url}"}}
ray: {{min_replicas: {least}, max_replicas: {most}, ingress: head, {ray}}}
drain: 3s
"""
# What `serve deploy FILE` does, without the dashboard it needs. Serve then adds or removes replicas and leaves others alone.
DEPLOY = """\
import sys, ray, yaml
from ray.serve.context import _get_global_client
from ray.serve.schema import ServeDeploySchema
ray.init(address=sys.argv[1], log_to_driver=False)
document = ServeDeploySchema.model_validate(yaml.safe_load(open(sys.argv[2])))
_get_global_client().deploy_apps(document, _blocking=True)
"""

CLUSTER = """\
import sys
from ray.cluster_utils import Cluster
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
cluster.add_node(num_cpus=1)
print(cluster.address, flush=True)
sys.stdin.read()
cluster.shutdown()
"""


def service_port() -> int:
    """A free port beyond those of Ray's own workers, the next one free as well."""
    while not 20000 <= (port := free_port()) < 65000:
        pass
    return port


def environment() -> dict[str, str]:
    """Of Ray's processes, which know each other by a token of their own."""
    outside = {k: v for k, v in os.environ.items() if k != "RAY_ADDRESS"}
    return outside | {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(16)}


class Cluster:
    """A Ray of two nodes on this machine, one core each."""

    def __init__(self, log: Path) -> None:
        self.environment = environment()
        with log.open("w") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-c", CLUSTER],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=out,
                text=True,
                env=self.environment,
            )
        self.pid = self._process.pid
        assert self._process.stdout is not None
        self.address = self._process.stdout.readline().strip()
        assert self.address, log.read_text()[-3000:]

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


class RayHouse:
    """Two replicas by default. `ready` is the ready line."""

    def __init__(
        self,
        root: Path,
        url: str,
        *,
        most: int = 2,
        least: int = 2,
        ray: str = "cpus: 0.1",
        cluster: "Cluster | None" = None,
        processes: int = 0,
    ) -> None:
        self.root, self.url = root, url
        self._ray = ray
        self.port = service_port()
        self.path = root / "worker.yaml"
        self._out = root / "out.jsonl"
        self.log = root / "ray.log"
        self.pid = 0
        self.write(least=least, most=most)
        options = [] if cluster is None else ["--ray-address", cluster.address]
        options += ["--processes", str(processes)] if processes else []
        command = [sys.executable, "-m", "nearfar", "cloud", str(self.path), "--deploy", "ray", *options]
        script = f"{shlex.join(command)} >{self._out} 2>{self.log} & echo $!"
        self.environment = environment() if cluster is None else cluster.environment
        told = subprocess.run(
            ["setsid", "sh", "-c", script],
            check=True,
            capture_output=True,
            text=True,
            timeout=10,
            env=self.environment,
        )
        self.pid = int(told.stdout)
        self._owner = self.pid if cluster is None else cluster.pid
        try:
            self.ready: dict[str, Any] = eventually(self._ready, START_WITHIN_S, f"a ready line; {self.log}")
        except BaseException:
            self.kill()
            raise

    def write(self, *, least: int, most: int) -> None:
        words = WORKER.format(
            root=self.root, port=self.port, url=self.url, least=least, most=most, ray=self._ray
        )
        self.path.write_text(words)

    def _ready(self) -> dict[str, Any]:
        assert psutil.pid_exists(self.pid), f"it has ended:\n{self.log.read_text()[-3000:]}"
        text = self._out.read_text()
        return dict(json.loads(text)) if text.endswith("\n") else {}

    def replicas(self) -> list[int]:
        """Their processes, oldest first."""
        found = []
        for process in psutil.process_iter(["pid", "cmdline", "create_time"]):
            command = process.info["cmdline"] or [""]
            if command[0].startswith(REPLICA) and self._is_ours(process):
                found.append((process.info["create_time"], process.info["pid"]))
        return [pid for _, pid in sorted(found)]

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            return self._owner in [parent.pid for parent in process.parents()]
        except psutil.NoSuchProcess:
            return False

    def scale(self, replicas: int) -> None:
        """Deploy a file with this many; returns once Serve has so many. The first time it replaces all of them: they
        were not deployed from a file."""
        self.write(least=replicas, most=replicas)
        file = self.root / "serve.yaml"
        self._run("-m", "nearfar", "cloud", str(self.path), "--deploy", "ray", "--write-config", str(file))
        self._run("-c", DEPLOY, str(self.ready["ray"]), str(file))
        eventually(lambda: len(self.replicas()) == replicas, 30.0, f"{replicas} replicas")

    def _run(self, *words: str) -> None:
        done = subprocess.run(
            [sys.executable, *words],
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
            env=self.environment,
        )
        assert done.returncode == 0, done.stderr[-3000:]

    def records(self) -> list[tuple[str, str, int]]:
        with open_store(self.url, read_only=True) as store:
            return [(i.run.hex(), i.stream, i.seq) for i in store.identities()]

    def stop(self, within_s: float = 40.0) -> None:
        """SIGTERM; nothing of it is left afterwards."""
        os.kill(self.pid, signal.SIGTERM)
        eventually(lambda: not psutil.pid_exists(self.pid), within_s, f"its end; {self.log}")

    def kill(self) -> None:
        """kill −9: Ray's processes end with whoever started them."""
        if self.pid and psutil.pid_exists(self.pid):
            os.kill(self.pid, signal.SIGKILL)
