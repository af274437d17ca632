"""An address that cannot be listened on: one sentence with the address, who has it, and what to do."""

import errno
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cloud.listeners.addresses import bind_fault, not_bound
from cloud.listeners.port_holder import who_listens

WORKER = """\
version: 1
state_dir: {root}
listen: {{{listen}}}
models: {{any: {{detector: {{kind: synthetic}}}}}}
"""


@pytest.fixture
def taken() -> Iterator[int]:
    """A port this process listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        one.listen()
        yield one.getsockname()[1]


def test_who_listens_is_named_with_its_command(taken: int) -> None:
    assert who_listens(taken).startswith(f"process {os.getpid()} (")


def test_a_port_nobody_listens_on_has_no_holder() -> None:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        assert who_listens(one.getsockname()[1]) == ""


def test_a_holder_nobody_can_see_is_looked_for_by_a_person(taken: int) -> None:
    with socket.socket() as bound:  # it does not listen, so the kernel's table of listeners has it not
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        fault = bind_fault("127.0.0.1", port)
        assert fault is not None
        assert fault.errno == errno.EADDRINUSE
        words = str(not_bound("listen.zmq.address", f"127.0.0.1:{port}", fault))
        assert f"ss -ltnp 'sport = :{port}'" in words


@pytest.mark.parametrize(
    ("number", "words"),
    [(errno.EADDRNOTAVAIL, "an address this machine has"), (errno.EACCES, "a port of 1024 or more")],
)
def test_each_reason_has_its_advice(number: int, words: str) -> None:
    assert words in str(not_bound("http.address", "192.0.2.1:80", OSError(number, "")))


def test_a_name_that_leads_nowhere_is_said_in_the_resolvers_words() -> None:
    fault = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    words = str(not_bound("listen.zmq.address", "nowhere.invalid:80", fault))
    assert "nowhere.invalid:80 cannot be bound: Name or service not known; write an address" in words


@pytest.mark.parametrize("kind", ["zmq", "grpc", "http"])
def test_a_worker_on_a_port_in_use_says_it_once_in_one_line_and_exits_as_for_its_file(
    kind: str, taken: int, tmp_path: Path
) -> None:
    address = f"{{address: '127.0.0.1:{taken}'}}"
    listen = f"{kind}: {address}" + (", zmq: {address: '127.0.0.1:0'}" if kind == "http" else "")
    path = tmp_path / "worker.yaml"
    path.write_text(WORKER.format(root=tmp_path, listen=listen))
    done = subprocess.run(
        [sys.executable, "-m", "nearfar", "cloud", str(path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert (
        f"listen.{kind}.address: 127.0.0.1:{taken} cannot be bound: Address already in use by process" in line
    )
