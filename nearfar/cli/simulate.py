"""`nearfar simulate`: the scheduler in virtual time over recorded links."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edge.scheduling.policies import POLICIES
from nearfar.cli import options, outputs
from nearfar.cli.values import SEEDS, DurationOption, FiniteRange
from pipelines.errors import ConfigError

if TYPE_CHECKING:
    from nearfar.simulation.outcome import Outcome
    from nearfar.simulation.recipe import Setup

CHOICES = (*POLICIES, "greedy", "oracle")
"""Of --policy: the scheduler's own, and what could be had with the future known."""


@click.command(name="simulate")
@click.argument("pipeline", type=click.Path(path_type=Path))
@click.option(
    "--trace",
    "traces",
    type=click.Path(path_type=Path, dir_okay=False),
    multiple=True,
    required=True,
    help="A link: mahimahi stamps, a Mbit/s per second, CSV, or a schedule of steps; repeatable.",
)
@click.option(
    "--policy",
    "policies",
    type=click.Choice(CHOICES),
    multiple=True,
    help="Only this one; repeatable. Left out: all, and what could be had with the future known.",
)
@click.option("--frames", type=click.IntRange(1, 1_000_000), default=3000, show_default=True)
@click.option("--seed", type=click.IntRange(0, SEEDS), default=0, show_default=True)
@click.option("--fps", type=FiniteRange(0.1, 1000), help="Default: what the sources say, else 15.")
@click.option(
    "--near-time",
    type=DurationOption(),
    help="Median of a near run. Default: as measured, else 40ms.",
)
@click.option(
    "--worker-time",
    type=DurationOption(),
    help="Median at the worker. Default: as measured, else 20ms.",
)
@click.option(
    "--rtt",
    type=DurationOption(),
    default="30ms",
    show_default=True,
    help="Where the trace says nothing of it.",
)
@click.option(
    "--down",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A trace for the way back, else 40 Mbit/s.",
)
@click.option(
    "--loss",
    type=FiniteRange(0, 0.5),
    help="Share of packets lost each way, e.g. 0.01; else the trace's.",
)
@click.option("--jitter", type=DurationOption(), help="Standard deviation each way; else the trace's.")
@click.option(
    "--format",
    "fmt",
    type=click.Choice(("mahimahi", "mbit", "csv", "schedule")),
    help="Of the traces. Default: told from what is in them.",
)
@click.option(
    "--accuracies",
    "accuracies_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="What each rung really sees, frame by frame; else the recipe's constants.",
)
@click.option("--explain", is_flag=True, help="Also say where each policy lost against the oracle, by cause.")
@click.option("--json", "json_to", metavar="FILE", help="Also write the figures as JSON; - is stdout, alone.")
@click.option(
    "--plot", type=click.Path(path_type=Path, dir_okay=False), help="Also write an HTML page with plots."
)
@options.overrides
def command(
    *,
    pipeline: Path,
    traces: tuple[Path, ...],
    policies: tuple[str, ...],
    frames: int,
    seed: int,
    fps: float | None,
    near_time: int | None,
    worker_time: int | None,
    rtt: int,
    down: Path | None,
    loss: float | None,
    jitter: int | None,
    fmt: str | None,
    accuracies_file: Path | None,
    explain: bool,
    json_to: str | None,
    plot: Path | None,
    overrides: tuple[str, ...],
) -> None:
    """Run PIPELINE's scheduler and a worker's queue in virtual time over a trace.

    The same code as on a gateway, thousands of frames a second, the same figures for the same seed. No model is
    loaded and nothing is sent: see which policy, ladder and deadline suit a link before you buy one.
    """
    from edge.config.pipeline import load_pipeline  # noqa: PLC0415 - help stays quick
    from nearfar.simulation.accuracies import read_accuracies  # noqa: PLC0415
    from nearfar.simulation.comparison import BOUNDS, compare, gap_closed, table  # noqa: PLC0415
    from nearfar.simulation.link.traces import read_trace  # noqa: PLC0415
    from nearfar.simulation.recipe import Assumed, set_up  # noqa: PLC0415
    from nearfar.simulation.summary import Summary  # noqa: PLC0415

    outputs.check_files(None if json_to is None else Path(json_to))
    outputs.check_plot(plot)
    config = load_pipeline(pipeline, overrides)
    accuracies = None if accuracies_file is None else read_accuracies(accuracies_file)
    assumed = Assumed(frames=frames, seed=seed, fps=fps, near_us=near_time, worker_us=worker_time)
    links = [read_trace(path, fmt=fmt, rtt_us=rtt, down=down) for path in traces]
    for note in dict.fromkeys(link.note for link in links if link.note):
        click.echo(note, err=True)
    if loss is not None:
        links = [link.with_loss(loss) for link in links]
    if jitter is not None:
        links = [link.with_jitter(jitter) for link in links]
    found: list[Summary] = []
    closed: dict[str, dict[str, float]] = {}
    for link in links:
        setup = set_up(config, link, assumed=assumed, accuracies=accuracies)
        unable = [p for p in policies if p not in (*setup.policies, *BOUNDS)]
        if unable:
            raise ConfigError(
                f"{', '.join(unable)}: needs a `near` detector in the pipeline; add one, or leave it out of --policy"
            )
        summaries = compare(setup, policies or (*setup.policies, *BOUNDS))
        found += summaries
        closed[link.name] = gap_closed(summaries)
        if json_to != "-":
            click.echo(_headline(link.name, link.described, frames, setup.scenario.fps, seed))
            click.echo(table(summaries))
            for bound in BOUNDS:
                shares = gap_closed(summaries, bound=bound)
                words = ", ".join(f"{name} {share * 100:.0f} %" for name, share in shares.items())
                if words:
                    click.echo(f"gap between near_only and {bound} closed: {words}")
            if explain:
                _explain(setup, policies or setup.policies, echo=click.echo)
            click.echo()
    if json_to is not None:
        runs = [summary.as_dict() for summary in found]
        outputs.write_json({"runs": runs, "gap_closed": closed}, json_to)
    if plot is not None:
        from nearfar.simulation.plot import write_plot  # noqa: PLC0415

        with outputs.writing(plot):
            write_plot(found, plot)


def _headline(name: str, described: str, frames: int, fps: float, seed: int) -> str:
    return f"{name} ({described}): {frames} frames a stream at {fps:g} fps, seed {seed}"


def _explain(setup: "Setup", policies: Sequence[str], *, echo: Callable[[str], None]) -> None:
    """A table of causes for every policy that answers far."""
    from nearfar.simulation.comparison import BOUNDS, run  # noqa: PLC0415 - help stays quick
    from nearfar.simulation.explanation import explain, table  # noqa: PLC0415
    from nearfar.simulation.summary import on_time_f1  # noqa: PLC0415

    def f1(outcome: "Outcome") -> float:
        return on_time_f1(list(outcome.ends.values()), setup.scenario)

    oracle, near = run(setup, "oracle"), run(setup, "near_only")
    for policy in policies:
        if policy not in (*BOUNDS, "near_only"):
            causes = explain(run(setup, policy), oracle, setup.scenario)
            echo(f"\n{policy}:\n{table(causes, gap=f1(oracle) - f1(near))}")
