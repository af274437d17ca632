"""The file of a Unix socket: made with its folder and mode, replaced when its program is dead, removed at the end.

Nobody can connect before the mode is set. A file that is no socket, or one that somebody serves, stays.
"""

import contextlib
import errno
import os
import socket
import stat
from pathlib import Path

from edge.sinks.kinds import SOCKET_PATH_BYTES
from pipelines.errors import ConfigError

_QUEUE = 128  # more than are ever served at once: one too many is to be told so, not left waiting


def listen(path: Path, mode: int) -> tuple[socket.socket, tuple[int, int]]:
    """A listening socket and the identity (device, inode) of its file. Raises ConfigError."""
    size = len(os.fsencode(path))
    if size > SOCKET_PATH_BYTES:
        raise ConfigError(
            f"{path} is {size} bytes long and a Unix socket's path may have {SOCKET_PATH_BYTES}; "
            "choose a shorter one, such as /run/nearfar/answers.sock"
        )
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_stale(path)
        listener.bind(os.fspath(path))
        path.chmod(mode)  # before listen: until then nobody can connect
        listener.listen(_QUEUE)
        found = path.stat()
    except OSError as error:
        listener.close()
        hint = "; another agent took it this moment" if error.errno == errno.EADDRINUSE else ""
        raise ConfigError(f"cannot make the answer socket {path}: {error.strerror}{hint}") from error
    except ConfigError:
        listener.close()
        raise
    return listener, (found.st_dev, found.st_ino)


def _remove_stale(path: Path) -> None:
    """Remove the socket file of an agent that is gone. ConfigError when it serves, or is no socket."""
    try:
        kind = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(kind):
        raise ConfigError(
            f"{path} exists and is not a socket, so it is not replaced; remove it or choose another path"
        )
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(os.fspath(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return
        except FileNotFoundError:
            return
        except BlockingIOError:
            pass  # somebody listens, with a full queue
    raise ConfigError(
        f"{path} is served by another program that runs now; stop it, or give this agent a path of its own"
    )


def is_ours(path: Path, inode: tuple[int, int]) -> bool:
    """Whether the file is still the one that was made; somebody may have removed it, or put another there."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return (found.st_dev, found.st_ino) == inode


def remove(path: Path, inode: tuple[int, int]) -> None:
    """Remove our file; one that another agent has put there since stays."""
    if is_ours(path, inode):
        with contextlib.suppress(OSError):
            path.unlink()
