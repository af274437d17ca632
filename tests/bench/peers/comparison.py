"""Ours beside what others take for the same: who was measured, what came out, and whether we are ahead.

Ratios are taken round by round, ours over theirs, and the median counts. Judged are the round trip against peers that
know one frame at a time (over ZeroMQ, as they are) and frames per second with eight on their way against the others
(over ZeroMQ and over gRPC). A peer that is not installed, or did not run, has its rows, and they do not hold.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pipelines.windows import quantile
from tests.bench.peers.environments import Environments
from tests.bench.peers.kinds import OTHERS, OURS, OURS_GRPC, OURS_ZMQ, Peer
from tests.bench.peers.pair import Pair
from tests.bench.peers.rounds import WINDOW, Measured, Taken, measure
from tests.bench.report import Report

SIZES_BYTES = (30_000, 150_000, 900_000)
ROUNDS, QUICK_ROUNDS = 15, 9
ROUND_S, QUICK_ROUND_S = 0.25, 0.08
_COLUMNS: tuple[tuple[str, float, int], ...] = (
    ("p50_us", 1e-3, 2),
    ("p99_us", 1e-3, 2),
    ("cpu_us", 1e-3, 2),
    ("window_per_s", 1, 0),
    ("window_cpu_us", 1e-3, 2),
)


def compare(report: Report, arguments: argparse.Namespace) -> None:
    """A frame there and its result back: ours, imagezmq, NetGear, Gabriel, Triton and HTTP upload in one run."""
    environments = Environments()
    absent = missing(environments, install=arguments.install)
    there = [peer for peer in (*OURS, *OTHERS) if peer.name not in absent]
    rounds, seconds = (QUICK_ROUNDS, QUICK_ROUND_S) if arguments.quick else (ROUNDS, ROUND_S)
    with tempfile.TemporaryDirectory() as folder:
        taken = measure(
            there,
            starter(environments, Path(folder)),
            sizes_bytes=SIZES_BYTES,
            rounds=rounds,
            seconds=seconds,
        )
    if broken := {name: why for name, why in taken.failed.items() if name in {peer.name for peer in OURS}}:
        raise RuntimeError(f"ours did not run: {broken}")
    versions = {
        p.environment: environments.versions(p.environment) for p in there if p.environment is not None
    }
    fill(report, taken, absent)
    report.figures |= {"rounds": rounds, "round_s": seconds, "versions": versions}


def missing(environments: Environments, *, install: bool) -> dict[str, str]:
    """Peers that cannot be measured, with what to do; `install` does it first."""
    absent = {}
    for peer in OTHERS:
        name = peer.environment
        if name is None or environments.python(name) is not None:
            continue
        absent[peer.name] = environments.how(name)
        if not install:
            continue
        print(f"installing {name}", file=sys.stderr)
        try:
            environments.install(name)
        except (OSError, subprocess.CalledProcessError) as error:
            absent[peer.name] = f"could not be installed: {error}"
        else:
            del absent[peer.name]
    return absent


def starter(environments: Environments, folder: Path) -> Callable[[Peer], Pair]:
    """What starts a peer that is there; what its processes say goes to files in `folder`."""

    def start(peer: Peer) -> Pair:
        python = environments.python(peer.environment)
        assert python is not None
        return Pair(peer, python, Path(tempfile.mkdtemp(dir=folder)))

    return start


def fill(report: Report, taken: Taken, absent: Mapping[str, str]) -> None:
    """Figures, the table and the bars of what was taken; `absent`: why a peer was not."""
    why_not = dict(absent) | {name: f"did not run: {why}" for name, why in taken.failed.items()}
    for size_bytes, cells in taken.by_size.items():
        size = f"{size_bytes // 1000} kB"
        report.figures[size] = {
            name: _medians(rounds) for name, rounds in cells.items() if name not in why_not
        }
        for peer in OTHERS:
            against = (OURS_ZMQ,) if not peer.windowed else (OURS_ZMQ, OURS_GRPC)
            for ours in against:
                what, want = _bar(peer, ours, size)
                if peer.name in why_not:
                    if peer.judged:
                        report.not_measured(what, want, why_not[peer.name])
                    continue
                key = "window_per_s" if peer.windowed else "p50_us"
                ratios = _ratios(cells[ours], cells[peer.name], key)
                spread = [round(quantile(ratios, q), 3) for q in (0.1, 0.9)]
                figures = report.figures[size][peer.name]
                figures[f"{ours} / this, {key}"] = {
                    "median": round(quantile(ratios, 0.5), 3),
                    "p10_p90": spread,
                }
                if not peer.judged:
                    continue
                if peer.windowed:
                    report.above(what, 1.0, quantile(ratios, 0.5))
                else:
                    report.below(what, 1.0, quantile(ratios, 0.5))
    if taken.restarts:
        report.figures["restarts"] = taken.restarts
    report.words = _table(report, why_not)


def _bar(peer: Peer, ours: str, size: str) -> tuple[str, str]:
    if peer.windowed:
        return f"frames/s of {size}, {WINDOW} on their way: {ours} / {peer.name}", "> 1.0"
    return f"p50 of {size}, one on its way: {ours} / {peer.name}", "< 1.0"


def _medians(rounds: list[Measured | None]) -> dict[str, Any]:
    there = [each for each in rounds if each is not None]
    out: dict[str, Any] = {}
    for key, scale, digits in _COLUMNS:
        if there and key in there[0]:
            value = quantile(sorted(each[key] for each in there), 0.5) * scale
            out[key.replace("_us", "_ms")] = round(value, digits) if digits else round(value)
    return out


def _ratios(ours: list[Measured | None], theirs: list[Measured | None], key: str) -> list[float]:
    """Ascending, of the rounds in which both were measured."""
    both = zip(ours, theirs, strict=True)
    return sorted(a[key] / b[key] for a, b in both if a is not None and b is not None)


def _table(report: Report, why_not: Mapping[str, str]) -> str:
    """A row for every peer, a cell for every size; those that were not measured say why."""
    sizes = [size for size in report.figures if size.endswith(" kB")]
    heads = (
        "peer",
        "p50 ms",
        "p99 ms",
        f"frames/s, {WINDOW} on their way",
        "CPU ms per frame",
        "what it does",
    )
    rows = [
        f"By size, {' · '.join(sizes)}; CPU of both sides, one on its way:",
        "",
        "| " + " | ".join(heads) + " |",
        "| " + " | ".join("---" for _ in heads) + " |",
    ]
    for peer in (*OURS, *OTHERS):
        if peer.name in why_not:
            rows.append(f"| {peer.name} | {why_not[peer.name]} | | | | {peer.does} |")
            continue
        cells = [
            " · ".join(str(report.figures[size][peer.name].get(key, "–")) for size in sizes)
            for key in ("p50_ms", "p99_ms", "window_per_s", "cpu_ms")
        ]
        if not peer.windowed:
            cells[2] = "one at a time"
        rows.append("| " + " | ".join([peer.name, *cells, peer.does]) + " |")
    return "\n".join(rows)
