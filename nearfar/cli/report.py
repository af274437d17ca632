"""`nearfar report`: one page about a run."""

from pathlib import Path

import click


@click.command(name="report")
@click.argument("run_dir", type=click.Path(path_type=Path))
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), help="Default: report.html in RUN_DIR."
)
def command(run_dir: Path, out: Path | None) -> None:
    """Write one self-contained HTML page about the run in RUN_DIR: was every frame answered by its deadline?

    RUN_DIR is what `nearfar edge --run-dir` or `nearfar demo --out` wrote, also of an agent that was killed. The
    page opens without a network. Exits 0 when the page was written, whatever it says.
    """
    from nearfar.report.page import write_report  # noqa: PLC0415 - numpy and the charts load only here

    path, line = write_report(run_dir, out)
    click.echo(line)
    click.echo(f"report: {path.resolve()}")
