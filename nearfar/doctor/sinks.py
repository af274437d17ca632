"""Sinks: whether each answer's way out could be opened. Nothing is written, made or taken from who uses it."""

import errno
import os
import socket
import stat
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from edge.config.pipeline import PipelineConfig
from edge.sinks.kinds import SOCKET_PATH_BYTES, JsonlSinkConfig, SocketSinkConfig, StdoutSinkConfig
from nearfar.bounded import within
from nearfar.doctor.finding import Finding, fail, ok, words_of
from nearfar.doctor.limits import Limit, as_asked
from nearfar.doctor.receivers import check_receiver
from nearfar.paths import shown

WITHIN_S = 1.0


def check_sinks(config: PipelineConfig, *, runs: bool, limit: Limit = as_asked) -> Iterator[Finding]:
    """One finding a sink, in order; `runs`: an agent runs already, so a socket that is served is its own."""
    for index, sink in enumerate(config.sinks):
        layer = f"sink {sink.name or sink.kind}"
        if isinstance(sink, StdoutSinkConfig):
            yield ok(layer, words="standard output")
        elif isinstance(sink, JsonlSinkConfig):
            yield _path(layer, index, sink.path, partial(_file, sink.path), limit)
        elif isinstance(sink, SocketSinkConfig):
            yield _path(layer, index, sink.path, partial(_socket, sink.path, runs=runs), limit)
        else:
            yield check_receiver(sink, layer=layer, limit=limit)


def _path(layer: str, index: int, path: Path, look: Callable[[], tuple[str, bool]], limit: Limit) -> Finding:
    try:
        said, wrong = within(limit(WITHIN_S), look, what="the disk")
    except Exception as error:  # noqa: BLE001 - whatever a file system says is what is to be told
        said, wrong = words_of(error), True
    words = f"{shown(path)}: {said}"
    choose = f"choose another path in sinks.{index}.path, or mend this one"
    return fail(layer, words=words, advice=choose) if wrong else ok(layer, words=words)


def _file(path: Path) -> tuple[str, bool]:
    """What is to be said, and whether it is wrong."""
    if path.is_dir():
        return "is a folder, not a file", True
    if not path.exists():
        return _folder(path)
    # Not blocking: a pipe nobody reads would keep the doctor waiting, as it would the agent.
    os.close(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK))
    return "can be added to", False


def _socket(path: Path, *, runs: bool) -> tuple[str, bool]:
    size = len(os.fsencode(path))
    if size > SOCKET_PATH_BYTES:
        return f"is {size} bytes long and a Unix socket's path may have {SOCKET_PATH_BYTES}", True
    try:
        kind = path.lstat().st_mode
    except FileNotFoundError:
        return _folder(path)
    if not stat.S_ISSOCK(kind):
        return "exists and is no socket, so the agent does not replace it", True
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        number = probe.connect_ex(os.fspath(path))
    if number in (0, errno.EAGAIN):  # EAGAIN: somebody listens, with a full queue
        return ("served by the agent that runs", False) if runs else ("is served by another program", True)
    if number == errno.ECONNREFUSED:
        said, wrong = _folder(path)
        return (said, wrong) if wrong else ("left by a program that is gone, and replaced at start", False)
    return os.strerror(number), True


def _folder(path: Path) -> tuple[str, bool]:
    """Whether a file can be made at `path`, folders on the way included."""
    there = next(p for p in path.absolute().parents if p.exists())
    if not there.is_dir():
        return f"{shown(there)} is no folder", True
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        return f"nothing can be made in {shown(there)}: {words_of(error)}", True
    return "can be made", False
