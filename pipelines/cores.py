"""How many cores this process may keep busy: what a plan for threads starts from."""

import os
from pathlib import Path


def cores(root: Path = Path("/sys/fs/cgroup"), *, own: str | None = None) -> float:
    """Cores this process may use: those it may be scheduled on, less what a container's quota takes."""
    allowed = float(len(os.sched_getaffinity(0)))
    if own is None:
        try:
            lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
        except OSError:
            lines = []
        own = next((line[3:] for line in lines if line.startswith("0::")), "/")
    group = root / own.strip("/")
    for folder in (group, *group.parents):
        if not folder.is_relative_to(root):
            break
        try:
            quota, period = (folder / "cpu.max").read_text(encoding="ascii").split()
        except (OSError, ValueError):
            continue
        if quota.isdigit() and int(period) > 0:
            allowed = min(allowed, int(quota) / int(period))
    return allowed
