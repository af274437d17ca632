"""`nearfar calibrate`: what near and every rung of far are worth, measured on a clip and written into the recipe."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nearfar.cli import file_kind, options, outputs
from nearfar.cli.values import MOST
from pipelines.errors import ConfigError
from pipelines.units import extent

if TYPE_CHECKING:  # it brings cv2, and help stays quick
    from edge.config.pipeline import PipelineConfig
    from nearfar.calibrate.far_side import FarSide
    from nearfar.calibrate.run import Outcome

DEFAULT_FRAMES = 200


def _extents(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> tuple[tuple[int, int], ...]:
    """(width_px, height_px) of options written like `160x160`."""
    try:
        return tuple(map(extent, values))
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from error


@click.command(name="calibrate")
@click.argument("pipeline", type=click.Path(path_type=Path))
@click.option(
    "--clip",
    "clips",
    type=click.Path(path_type=Path),
    multiple=True,
    required=True,
    help="What the camera sees: a video file or a folder of pictures; repeatable. No labels are needed.",
)
@click.option(
    "--worker",
    "worker",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The worker's file: its model (far.model of the pipeline, else the default one) runs here as far.",
)
@click.option(
    "--link", metavar="NAME", help="Instead: the worker that runs behind this link of the pipeline."
)
@click.option(
    "--frames",
    type=click.IntRange(1, 1_000_000),
    help=f"At most so many pictures, evenly over the clips.  [default: {DEFAULT_FRAMES}]",
)
@click.option(
    "--every", type=click.IntRange(1, MOST), help="Instead: every Nth picture of each clip, 1 = all."
)
@click.option(
    "--near-input",
    "near_inputs",
    multiple=True,
    callback=_extents,
    metavar="WIDTHxHEIGHT",
    help="Also near at this smaller input; repeatable.",
)
@click.option("--suggest", is_flag=True, help="Try a grid of qualities and scales, and propose a ladder.")
@click.option("--dry-run", is_flag=True, help="Show what would change in PIPELINE, and change nothing.")
@click.option("--json", "json_to", metavar="FILE", help="Also write the figures as JSON; - is stdout, alone.")
@click.option(
    "--plot",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Also write an HTML page: accuracy against bytes.",
)
@click.option(
    "--accuracies",
    "accuracies_to",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Also write what was seen picture by picture, for `nearfar simulate --accuracies`.",
)
@options.overrides
def command(
    *,
    pipeline: Path,
    clips: tuple[Path, ...],
    worker: Path | None,
    link: str | None,
    frames: int | None,
    every: int | None,
    near_inputs: tuple[tuple[int, int], ...],
    suggest: bool,
    dry_run: bool,
    json_to: str | None,
    plot: Path | None,
    accuracies_to: Path | None,
    overrides: tuple[str, ...],
) -> None:
    """Measure what near and every rung of far see in a clip, and write it into PIPELINE.

    Accuracy is F1 at IoU 0.5 against the best far result: the far model on the pictures themselves. So no labels are
    needed. near.accuracy and the ladder's accuracy and bytes are written, everything else in the file stays as it is.
    """
    if frames is not None and every is not None:
        raise click.UsageError("--frames and --every: choose one")
    if (worker is None) == (link is None):
        raise click.UsageError(
            "say who answers for the cloud: --worker WORKER.yaml runs its model here, --link NAME asks the running worker"
        )
    from datetime import date  # noqa: PLC0415 - help stays quick

    from nearfar.calibrate.clips import every_nth, spread_over  # noqa: PLC0415
    from nearfar.calibrate.progress import Progress  # noqa: PLC0415
    from nearfar.calibrate.recipe_file import check_writable, read_recipe  # noqa: PLC0415
    from nearfar.calibrate.run import calibrate  # noqa: PLC0415
    from pipelines.runtime import tune  # noqa: PLC0415

    file_kind.must_be("pipeline", pipeline)
    if worker is not None:
        file_kind.must_be("worker", worker)
    recipe = read_recipe(pipeline, overrides)
    if not dry_run:
        check_writable(recipe)
    outputs.check_plot(plot)
    outputs.check_files(accuracies_to, None if json_to is None else Path(json_to))
    if accuracies_to is not None and recipe.config.near is None:
        raise ConfigError(
            "--accuracies needs a `near` detector in the pipeline: add one, or leave --accuracies out"
        )
    chosen = (
        spread_over(clips, frames=frames or DEFAULT_FRAMES)
        if every is None
        else every_nth(clips, every=every)
    )
    tune()
    progress = Progress("calibrating, pictures", of=chosen.expected)
    try:
        with _far_side(recipe.config, worker=worker, link=link) as far:
            outcome = calibrate(
                recipe.config,
                far=far,
                clips=chosen,
                near_inputs=near_inputs,
                suggested=suggest,
                told=progress.done,
            )
    finally:
        progress.end()
    say = partial(click.echo, err=json_to == "-")
    _publish(outcome, say=say, json_to=json_to, plot=plot, accuracies_to=accuracies_to)
    recipe = recipe.as_it_is_now()
    day = date.today().isoformat()  # noqa: DTZ011 - the day where the person is
    text = recipe.with_findings(outcome.found, outcome.ladder, suggested=suggest, day=day)
    if text == recipe.text:
        say(f"{pipeline} says so already")
    elif dry_run:
        say(recipe.diff(text).rstrip("\n"))
    else:
        recipe.write(text)
        say(f"written to {pipeline}")


@contextmanager
def _far_side(config: "PipelineConfig", *, worker: Path | None, link: str | None) -> "Iterator[FarSide]":
    if worker is not None:
        from nearfar.calibrate.local_far import local_far  # noqa: PLC0415

        yield local_far(worker, model=config.far.model)
    elif link is not None:
        from nearfar.calibrate.live_far import live_far  # noqa: PLC0415

        with live_far(config, link) as far:
            yield far


def _publish(
    outcome: "Outcome",
    *,
    say: Callable[[str], None],
    json_to: str | None,
    plot: Path | None,
    accuracies_to: Path | None,
) -> None:
    """The table by `say`, and every file that was asked for. Raises ConfigError for one that cannot be written."""
    from nearfar.calibrate.plot import write_plot  # noqa: PLC0415
    from nearfar.calibrate.table import headline, table  # noqa: PLC0415
    from nearfar.simulation.accuracies import write_accuracies  # noqa: PLC0415

    found, ladder = outcome.found, outcome.ladder
    say(headline(found))
    say(table(found, ladder))
    for note in found.notes:
        say(f"note: {note}")
    if json_to is not None:
        outputs.write_json(outcome.as_dict(), json_to)
    if accuracies_to is not None:
        with outputs.writing(accuracies_to):
            write_accuracies(outcome.as_file(), accuracies_to)
    if plot is not None:
        with outputs.writing(plot):
            write_plot(found, ladder, plot)
