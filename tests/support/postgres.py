"""A real PostgreSQL server on loopback, with a password, in a folder of its own; started once per run of the tests.

It refuses to run as root, so root's tests start it as the user `postgres` that Debian's package makes. `pg_ctl` puts
it into the background: its processes are not those of a test.
"""

import os
import shutil
import subprocess
import tempfile
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support.programs import program
from tests.support.rig import free_port

USER, PASSWORD = "nearfar", "do-not-show"
_ROOT_BECOMES = "postgres"


class PostgresServer:
    """`durable`: with fsync, for figures."""

    def __init__(self, *, durable: bool = False) -> None:
        self._durable = durable
        self._names = count(1)
        self._as: dict[str, Any] = {}
        if os.geteuid() == 0:
            self._as = {"user": _ROOT_BECOMES, "group": _ROOT_BECOMES, "extra_groups": []}

    def __enter__(self) -> Self:
        self.root = Path(tempfile.mkdtemp(prefix="nearfar-postgres-"))
        if self._as:
            shutil.chown(self.root, self._as["user"], self._as["group"])
        self.port = free_port()
        password = self.root / "password"
        password.write_text(PASSWORD)
        password.chmod(0o644)
        try:
            self._run(
                "initdb",
                *("-D", str(self.root / "data"), "-U", USER, "-A", "scram-sha-256"),
                *(f"--pwfile={password}", "-E", "UTF8", "--no-sync"),
            )
            self.start()
        except BaseException:
            shutil.rmtree(self.root)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        shutil.rmtree(self.root)

    def start(self) -> None:
        options = {
            "port": str(self.port),
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": str(self.root),
            "fsync": "on" if self._durable else "off",
            "max_connections": "50",
        }
        words = " ".join(f"-c {name}={value}" for name, value in options.items())
        self._ctl("start", "-w", "-l", str(self.root / "log"), "-o", words)

    def stop(self, *, hard: bool = True) -> None:
        """`hard`: as a crash would, without a word to those connected."""
        self._ctl("stop", "-w", "-m", "immediate" if hard else "fast")

    def new_url(self) -> str:
        """A fresh place: a schema of its own, which costs a hundredth of a database."""
        name = f"t{next(self._names)}"
        self.sql(f"CREATE SCHEMA {name}")
        return f"{self.url()}?options=-csearch_path%3D{name}"

    def url(self, database: str = "postgres") -> str:
        return f"postgresql+psycopg://{USER}:{PASSWORD}@127.0.0.1:{self.port}/{database}"

    def sql(self, words: str) -> list[tuple[Any, ...]]:
        """What the administrator would type."""
        import psycopg  # noqa: PLC0415 - only tests marked with the service load it

        where = self.url().replace("+psycopg", "")
        with psycopg.connect(where, autocommit=True) as connection:
            cursor = connection.execute(words.encode())
            return cursor.fetchall() if cursor.description else []

    def _ctl(self, verb: str, *words: str) -> None:
        self._run("pg_ctl", verb, "-D", str(self.root / "data"), "-s", *words)

    def _run(self, name: str, *words: str) -> None:
        path = program(name)
        assert path is not None, f"{name} belongs to PostgreSQL's server package"
        log = self.root / f"{name}.out"  # not a pipe: the server would inherit it
        with log.open("wb") as out:
            done = subprocess.run(
                [path, *words], stdout=out, stderr=out, cwd=self.root, check=False, timeout=60, **self._as
            )
        assert done.returncode == 0, log.read_text()
