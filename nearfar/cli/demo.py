"""`nearfar demo`: the main job in one command."""

import json
import sys
from pathlib import Path

import click

from pipelines.errors import ConfigError


@click.command(name="demo")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("runs/demo"),
    show_default=True,
    help="Where the run is written: a new or empty folder, or one an earlier demo wrote, which is replaced.",
)
@click.option(
    "--assets",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(".assets"),
    show_default=True,
    help="Where the clip and the model lie (`python -m nearfar.assets DIR` fetches them).",
)
@click.option(
    "--link",
    type=click.Choice(["zmq", "grpc"]),
    default="zmq",
    show_default=True,
    help="What carries the frames to the worker.",
)
def command(out: Path, assets: Path, link: str) -> None:
    """Run worker, bad link and agent on this machine for 44 s, judge every promise, and write a report page.

    Exits 0 when every promise held, 1 when one was broken.
    """
    try:
        from rich.console import Console  # noqa: PLC0415 - an extra, loaded only here
        from rich.table import Table  # noqa: PLC0415

        from nearfar.demo.folder import prepare  # noqa: PLC0415
        from nearfar.demo.run import run  # noqa: PLC0415
        from nearfar.demo.verdict import checks, paragraph  # noqa: PLC0415
        from nearfar.demo.view import View  # noqa: PLC0415
        from nearfar.report.page import check_installed, write_report  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ConfigError(f"the demo needs {error.name}: pip install 'nearfar[demo]'") from error
    from nearfar.assets import locate  # noqa: PLC0415

    check_installed()
    found = locate(assets)
    out = out.resolve()
    prepare(out)
    console = Console()
    console.print(
        "[bold]nearfar demo[/]: CenterFace 192x160 near, 320x224 far, a street clip at 25 fps, deadline 100 ms"
    )
    with View(console, deadline_ms=100.0) as view:
        evidence = run(out, found, view, link=link)
    judged = checks(evidence)
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("", "promise", "wanted", "seen"):
        table.add_column(column)
    for check in judged:
        mark = "[green]kept[/]" if check.held else "[bold red]BROKEN[/]"
        table.add_row(mark, check.promise, check.want, check.got)
    console.print(table)
    console.print()
    console.print(paragraph(evidence), highlight=False)
    console.print(f"\nRun directory: {out}", highlight=False, soft_wrap=True)
    verdict = [{"promise": c.promise, "want": c.want, "got": c.got, "held": c.held} for c in judged]
    (out / "verdict.json").write_text(json.dumps(verdict, indent=1, ensure_ascii=False) + "\n")
    page, _ = write_report(out)
    console.print(f"Report: {page}", highlight=False, soft_wrap=True)
    if not all(check.held for check in judged):
        sys.exit(1)
