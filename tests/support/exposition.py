"""Prometheus text as a test reads it."""

import re
from pathlib import Path
from typing import Protocol

DOCS = Path(__file__).parents[2] / "docs" / "metrics.md"


class Page(Protocol):
    """What shows metrics."""

    def text(self) -> bytes: ...


def samples(metrics: Page) -> dict[str, float]:
    """`name{labels}` → value."""
    return read_samples(metrics.text().decode())


def read_samples(text: str) -> dict[str, float]:
    """The same of a page."""
    lines = text.splitlines()
    return {k: float(v) for k, _, v in (line.rpartition(" ") for line in lines if not line.startswith("#"))}


def names(metrics: Page) -> set[str]:
    """As a person would look them up."""
    found = set()
    for line in metrics.text().decode().splitlines():
        if line.startswith("# TYPE "):
            found.add(line.split()[2])
    return {name for name in found if name.startswith("nearfar_")}


def documented(prefix: str) -> set[str]:
    return set(re.findall(rf"^\| `({prefix}_\w+)`", DOCS.read_text(encoding="utf-8"), re.MULTILINE))


def assert_well_named(made: Page) -> None:
    """Names are in base units, and counters, only they, end in `_total`."""
    kinds = dict(
        line.split()[2:4] for line in made.text().decode().splitlines() if line.startswith("# TYPE nearfar_")
    )
    for name, kind in kinds.items():
        assert (kind == "counter") == name.endswith("_total"), name
        assert not re.search(r"_(ms|us|ns|kb|mb|kib|mib|percent|milliseconds)(_|$)", name), name
