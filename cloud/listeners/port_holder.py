"""Which process listens at a TCP port of this machine, as far as the kernel tells whoever asks. Nothing is opened but /proc."""

from contextlib import suppress
from pathlib import Path

_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_LISTEN = "0A"
_MOST_WORDS = 80


def who_listens(port: int) -> str:
    """`process 4711 (python worker.py)`; empty when that is nobody, another user's process, or not known here."""
    wanted = {f"socket:[{inode}]" for inode in _inodes(port)}
    if not wanted:
        return ""
    for folder in Path("/proc").glob("[0-9]*/fd"):
        with suppress(OSError):  # another user's, or it has ended
            if any(_leads_to(each) in wanted for each in folder.iterdir()):
                command = (
                    (folder.parent / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                )
                return f"process {folder.parent.name} ({command.strip()[:_MOST_WORDS]})"
    return ""


def _leads_to(descriptor: Path) -> str:
    """Empty for one that was closed meanwhile, as the one that lists them is."""
    try:
        return str(descriptor.readlink())
    except OSError:
        return ""


def _inodes(port: int) -> list[str]:
    """Of the sockets that listen there."""
    out = []
    for table in _TABLES:
        with suppress(OSError):
            rows = [line.split() for line in Path(table).read_text().splitlines()[1:]]
            out += [
                row[9] for row in rows if row[3] == _LISTEN and int(row[1].rpartition(":")[2], 16) == port
            ]
    return out
