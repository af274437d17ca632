"""The page itself: one HTML file with everything in it, that opens from a disk and asks no network.

Words from outside (labels, reasons, names) are escaped; the charts' data is JSON that cannot end its script.
"""

import json
from collections.abc import Mapping
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from nearfar import __version__
from nearfar.report import charts, tables
from nearfar.report.promise import Promise, judge, percent
from nearfar.report.run import Run, read_run
from nearfar.report.timeline import MOST_POINTS, timeline
from nearfar.report.worst import cards
from pipelines.errors import ConfigError
from pipelines.whole_file import write_whole


def write_report(run_dir: Path, out: Path | None = None) -> tuple[Path, str]:
    """Write the report of `run_dir` to `out` (its `report.html` unless given); the path and the page's first line.

    Raises ConfigError when the directory is no run, the page cannot be written or the extra is not installed.
    """
    run = read_run(run_dir)
    target = out or run_dir / "report.html"
    promise = judge(run)
    text = render(run, promise)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_whole(target, text.encode(), durable=False)
    except OSError as error:
        raise ConfigError(
            f"cannot write {target}: {error.strerror}; choose another file with --out"
        ) from error
    return target, promise.line


def check_installed() -> None:
    """ConfigError, with the command that mends it, when the extra `report` is not installed."""
    for module in ("jinja2", "plotly"):
        if find_spec(module) is None:
            raise ConfigError(f"the report needs {module}: pip install 'nearfar[report]'")


def render(run: Run, promise: Promise) -> str:
    """The page as text, with the verdict it begins with. Raises ConfigError when the extra `report` is not installed."""
    check_installed()
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415 - an extra

    environment = Environment(
        loader=PackageLoader("nearfar.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    figures = {name: figure for name, figure in _figures(run).items() if figure is not None}
    return environment.get_template("template.html.j2").render(
        run=run,
        version=__version__,
        promise=promise,
        tiles=_tiles(run),
        charts=figures,
        figures_json=script_json(figures),
        plotly=_plotly() if figures else "",
        sampled=len(run.frames) > MOST_POINTS,
        cards=cards(run),
        frames_law=tables.frames_law(run),
        outbox_law=tables.outbox_law(run),
        outbox_rows=tables.outbox_rows(run),
        stream_rows=tables.stream_rows(run),
        reason_rows=tables.reason_rows(run),
        byte_rows=tables.byte_rows(run),
        fact_rows=tables.fact_rows(run),
        style=_asset("style.css"),
        script=_asset("page.js"),
    )


def script_json(value: Any) -> str:
    """JSON for a script element: nothing in it can end the element or begin a comment."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _figures(run: Run) -> Mapping[str, dict[str, Any] | None]:
    return {
        "timeline": timeline(run),
        "latency": charts.latency_cdf(run),
        "timing": charts.timing_split(run),
        "bytes": charts.bytes_up(run),
        "sizes": charts.bytes_per_frame(run),
    }


def _tiles(run: Run) -> list[tuple[str, str, str]]:
    """The figures to see first: name, value, what stands under it."""
    frames = run.frames
    if not len(frames):
        return []
    share = run.on_time
    given = int(np.count_nonzero(frames.answered))
    tiles = [("on time", percent(share.frames, share.of), f"{share.frames:,} of {share.of:,} frames")]
    for name in ("far", "near"):
        latency = frames.latency_ms[frames.of(name) & frames.answered]
        below = f"{len(latency):,} answers"
        if len(latency):
            p50, p99 = np.quantile(latency, [0.5, 0.99])
            below += f" · p50 {p50:.0f} ms · p99 {p99:.0f} ms"
        tiles.append((name, percent(len(latency), given), below))
    without = frames.count("missed") + frames.count("shed")
    tiles.append(
        ("no answer", f"{without:,}", f"{frames.count('missed'):,} missed · {frames.count('shed'):,} shed")
    )
    if frames.count("gated"):
        tiles.append(("gated", f"{frames.count('gated'):,}", "nothing moved: not asked"))
    sent = int(frames.sent_bytes.sum(dtype=np.int64))
    if sent:
        tiles.append(
            ("pictures up", f"{sent / 1e6:.1f} MB", f"{sent / 1000 / len(frames):.1f} kB per captured frame")
        )
    return tiles


def _plotly() -> str:
    """plotly.js as its package carries it; the rest of the package is not needed."""
    return (files("plotly") / "package_data" / "plotly.min.js").read_text(encoding="utf-8")


def _asset(name: str) -> str:
    return (files("nearfar.report") / name).read_text(encoding="utf-8")
