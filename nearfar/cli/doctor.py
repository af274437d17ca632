"""`nearfar doctor`: try what a pipeline needs, layer by layer, and say what to mend."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nearfar import process
from nearfar.cli import file_kind, options
from pipelines.errors import ConfigError

if TYPE_CHECKING:
    from nearfar.doctor.finding import Finding

_MARKS = {"ok": "ok  ", "warn": "warn", "fail": "FAIL", "skipped": "-   "}


@click.command(name="doctor")
@click.argument("pipeline", type=click.Path(path_type=Path))
@options.overrides
@click.option("--json", "as_json", is_flag=True, help="One JSON object: what was found, in order.")
def command(pipeline: Path, overrides: tuple[str, ...], as_json: bool) -> None:  # noqa: FBT001 - click passes by name
    """Try everything PIPELINE needs on this machine, and say what to do where it is not there.

    Opens the cameras, looks at the sinks, runs the near model, greets the worker, measures the way to it. Takes at
    most 15 s, makes no record, and does not disturb an agent that runs. Exits 0 if nothing fails (warnings may
    remain), 1 if something does, 2 when PIPELINE has to be mended.
    """
    process.set_up_logging("error")
    from edge.config.pipeline import load_pipeline  # noqa: PLC0415 - cv2 and the engines load only when it is run
    from edge.config.warnings import warnings  # noqa: PLC0415
    from nearfar.bounded import anything_hangs  # noqa: PLC0415
    from nearfar.doctor.examination import examine  # noqa: PLC0415
    from nearfar.doctor.finding import Level, ok, warn  # noqa: PLC0415
    from pipelines import runtime  # noqa: PLC0415
    from pipelines.document import Document  # noqa: PLC0415

    runtime.tune()
    if file_kind.kind_of(Document.read(pipeline).data) == "worker":
        words = "is a worker's file; a doctor examines the pipeline of a gateway, up to its worker: give that"
        raise ConfigError(f"{pipeline} {words}")
    config = load_pipeline(pipeline, overrides)
    found: list[Finding] = []

    def tell(finding: "Finding") -> None:
        found.append(finding)
        if not as_json:
            click.echo(_line(finding))

    tell(ok("file", words=f"{pipeline} is right"))
    for sentence in warnings(config):
        tell(warn("file", words=sentence))
    for finding in examine(config):
        tell(finding)
    failed = [f.layer for f in found if f.level is Level.FAIL]
    if as_json:
        click.echo(json.dumps({"ok": not failed, "findings": [asdict(f) for f in found]}, ensure_ascii=False))
    else:
        warned = sum(f.level is Level.WARN for f in found)
        click.echo(
            f"failed: {', '.join(failed)}"
            if failed
            else f"nothing fails, {warned} to look at"
            if warned
            else "all well"
        )
    code = process.FAILED if failed else process.DONE
    if anything_hangs():
        process.leave(code)
    raise SystemExit(code)


def _line(finding: "Finding") -> str:
    line = f"{_MARKS[finding.level]} {finding.layer}: {finding.words}"
    return f"{line}\n       -> {finding.advice}" if finding.advice else line
