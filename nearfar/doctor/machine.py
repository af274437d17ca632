"""The gateway itself: its folder and disk, its clock, its ports, its cores. Nothing is kept or changed."""

import ctypes
import errno
import fcntl
import os
import socket
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from edge.config.pipeline import PipelineConfig
from nearfar.bounded import LateError, within
from nearfar.doctor.finding import Finding, fail, ok, skipped, warn, words_of
from nearfar.doctor.limits import Limit, as_asked
from nearfar.paths import shown

WRITE_WITHIN_S = 2.0
_WRITES = 5
_FULL = (errno.ENOSPC, errno.EDQUOT)
_WRITE_BYTES = 65_536
_SLOW_FSYNC_S = 0.05
_LEAST_FREE_BYTES = 32 << 20
_SANE_YEAR = 2025
_TIME_ERROR = 5
_TIMEX_BYTES = 256  # struct timex is smaller on every platform; modes = 0 only reads


def agent_runs(state_dir: Path) -> bool:
    """Whether an agent holds the folder. The lock is let go of at once."""
    try:
        with (state_dir / "lock").open("r") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def check_agent(config: PipelineConfig, *, runs: bool) -> Finding:
    if runs:
        words = f"one runs in {shown(config.state_dir)}; it is not disturbed, figures are taken beside it"
        return ok("agent", words=words)
    return ok("agent", words=f"none runs in {shown(config.state_dir)}")


def check_state_dir(config: PipelineConfig, *, limit: Limit = as_asked) -> Iterator[Finding]:
    """Writable, large enough, quick enough."""
    wanted, name = config.state_dir, shown(config.state_dir)
    there = next(p for p in (wanted, *wanted.absolute().parents) if p.exists())
    choose = "mend its permissions, or choose another with --set state_dir=DIR"
    if not there.is_dir():
        yield fail("state_dir", words=f"{shown(there)} is no folder", advice=choose)
        yield from _not_checked()
        return
    try:
        times_s = within(limit(WRITE_WITHIN_S), lambda: _written_s(there), what="the disk")
    except LateError as error:
        advice = "look at the disk: answers would wait for it as long"
        yield fail("state_dir", words=f"{name}: {error}", advice=advice)
        yield from _not_checked()
        return
    except OSError as error:
        words = f"{name} cannot be written: {words_of(error)}"
        yield fail("state_dir", words=words, advice="make room" if error.errno in _FULL else choose)
        yield from _not_checked()
        return
    made = "" if there == wanted else " (made at the first start)"
    yield ok("state_dir", words=f"{name} can be written{made}")
    yield _disk(config, there)
    yield _fsync(config, sorted(times_s)[len(times_s) // 2])
    if (kind := _file_system(there)) in ("tmpfs", "ramfs"):
        yield warn(
            "durability",
            words=f"{name} lies in memory ({kind}): a restart of this machine loses the outbox",
            advice="put state_dir on a disk",
        )


def _not_checked() -> Iterator[Finding]:
    """The layers that need a folder to write to."""
    return (skipped(layer, why="state_dir failed") for layer in ("disk", "fsync"))


def _written_s(folder: Path) -> list[float]:
    """Seconds each of a few writes with fsync took."""
    times_s = []
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(_WRITES):
            begun_s = time.monotonic()
            file.write(bytes(_WRITE_BYTES))
            file.flush()
            os.fsync(file.fileno())
            times_s.append(time.monotonic() - begun_s)
    return times_s


def _disk(config: PipelineConfig, folder: Path) -> Finding:
    disk = os.statvfs(folder)
    free = disk.f_bavail * disk.f_frsize
    outbox = config.state_dir / "outbox.db"
    held = outbox.stat().st_size if outbox.exists() else 0
    wanted = config.outbox.max_bytes
    words = f"{_gib(free)} free, the outbox may take {_gib(wanted)}"
    if held:
        words += f" and has {_gib(held)} of it"
    if free + held < _LEAST_FREE_BYTES:
        return fail("disk", words=words, advice="make room: answers go on, and cannot be kept")
    if free + held < wanted:
        return warn("disk", words=words, advice="make room, or set outbox.max_bytes to what there is")
    return ok("disk", words=words)


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / (1 << 30):.2f} GiB"


def _fsync(config: PipelineConfig, p50_s: float) -> Finding:
    words = f"{_WRITE_BYTES >> 10} KiB with fsync take {p50_s * 1000:.1f} ms"
    if config.outbox.durability == "power" and p50_s > _SLOW_FSYNC_S:
        advice = "durability: power syncs every 50 ms; use a quicker disk, or durability: process"
        return warn("fsync", words=words, advice=advice)
    return ok("fsync", words=words)


def _file_system(folder: Path) -> str:
    """The type of the file system `folder` lies on, empty when it cannot be told."""
    best, kind = "", ""
    path = str(folder.resolve())
    try:
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    for line in mounts:
        _, point, fs, *_ = line.split()
        if (path == point or path.startswith(point.rstrip("/") + "/")) and len(point) >= len(best):
            best, kind = point, fs
    return kind


def check_clock(now_unix_s: float | None = None, *, synchronised: bool | None = None) -> Finding:
    """Deadlines run on the monotonic clock: the wall clock only dates records for people."""
    now = datetime.fromtimestamp(time.time() if now_unix_s is None else now_unix_s, UTC)
    synchronised = _synchronised() if synchronised is None else synchronised
    harmless = "no deadline depends on it, records are dated by it"
    if now.year < _SANE_YEAR:
        words = f"it says {now:%Y-%m-%d %H:%M} UTC; {harmless}"
        return warn("clock", words=words, advice="set it, or let NTP do so")
    if not synchronised:
        words = f"{now:%Y-%m-%d %H:%M} UTC, not synchronised by NTP; {harmless}"
        return ok("clock", words=words)
    return ok("clock", words=f"{now:%Y-%m-%d %H:%M} UTC, synchronised")


def _synchronised() -> bool:
    """What the kernel says; reading it needs no rights."""
    buffer = ctypes.create_string_buffer(_TIMEX_BYTES)
    try:
        state = int(ctypes.CDLL(None).adjtimex(buffer))
    except (AttributeError, OSError):
        return False
    return 0 <= state < _TIME_ERROR


def check_http(config: PipelineConfig, *, runs: bool) -> Iterator[Finding]:
    """Whether the page's address is free; nothing when there is no page, or the agent that runs has it."""
    if config.http is None or runs:
        return
    host, _, port = config.http.address.rpartition(":")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host.strip("[]"), int(port)))
    except OSError as error:
        words = f"{config.http.address} cannot be bound: {words_of(error)}"
        yield fail("http", words=words, advice="choose another with --set http.address=HOST:PORT")
        return
    yield ok("http", words=f"{config.http.address} is free")
