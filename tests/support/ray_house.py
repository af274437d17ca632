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
ray: {{min_replicas: {least}, max_replicas: {most}, cpus: 0.1, ingress: head{extra}}}
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


def service_port() -> int:
    """A free port beyond those of Ray's own workers, the next one free as well."""
    while not 20000 <= (port := free_port()) < 65000:
        pass
    return port


class RayHouse:
    """Two replicas by default. `ready` is the ready line."""

    def __init__(self, root: Path, url: str, *, replicas: int = 2, address: str = "") -> None:
        self.root, self.url = root, url
        self.port = service_port()
        self.path = root / "worker.yaml"
        self._out = root / "out.jsonl"
        self.log = root / "ray.log"
        self.pid = 0
        self.write(least=replicas, most=replicas)
        options = ["--ray-address", address] if address else []
        command = [sys.executable, "-m", "nearfar", "cloud", str(self.path), "--deploy", "ray", *options]
        script = f"{shlex.join(command)} >{self._out} 2>{self.log} & echo $!"
        self.environment = {k: v for k, v in os.environ.items() if k != "RAY_ADDRESS"} | {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(16),
        }
        told = subprocess.run(
            ["setsid", "sh", "-c", script],
            check=True,
            capture_output=True,
            text=True,
            timeout=10,
            env=self.environment,
        )
        self.pid = int(told.stdout)
        try:
            self.ready: dict[str, Any] = eventually(self._ready, START_WITHIN_S, f"a ready line; {self.log}")
        except BaseException:
            self.kill()
            raise

    def write(self, *, least: int, most: int, extra: str = "") -> None:
        words = WORKER.format(
            root=self.root, port=self.port, url=self.url, least=least, most=most, extra=extra
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
            return self.pid in [parent.pid for parent in process.parents()]
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
