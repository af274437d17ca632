"""`nearfar edge`: run the agent of one gateway."""

import json
import sys
from pathlib import Path

import click

from nearfar import __version__, bounded, process
from nearfar.agent_page import AgentPage
from nearfar.cli import file_kind, options
from nearfar.cli.values import MOST

CANCELLED_WITHIN_S = 1.0


@click.command(name="edge")
@click.argument("pipeline", type=click.Path(path_type=Path))
@click.option(
    "--run-dir",
    type=click.Path(path_type=Path),
    help="Write frames, link and summary here; `nearfar report` makes a page of it.",
)
@click.option("--frames", type=click.IntRange(1, MOST), help="Stop each stream after this many frames.")
@options.overrides
@click.option("--log-level", default="warning", show_default=True, type=click.Choice(process.LOG_LEVELS))
def command(
    pipeline: Path, run_dir: Path | None, frames: int | None, overrides: tuple[str, ...], log_level: str
) -> None:
    """Answer every frame of PIPELINE's cameras by its deadline, near or far.

    Prints one JSON `ready` line, runs until its clips end or SIGTERM, then prints the summary as JSON on
    stderr. Exits 0 when every promise held, 1 when one was broken, 2 when PIPELINE has to be mended.
    """
    process.set_up_logging(log_level)
    file_kind.must_be("pipeline", pipeline)
    from pipelines.detectors.base import Cancelled, CancelToken  # noqa: PLC0415

    loading = CancelToken()
    stop = process.stop_on_signals(loading.cancel)
    from edge.agent import Agent  # noqa: PLC0415 - cv2 and the model engine load only when an agent runs
    from edge.config.pipeline import load_pipeline  # noqa: PLC0415
    from nearfar.http import serving  # noqa: PLC0415
    from pipelines import runtime  # noqa: PLC0415

    runtime.tune()
    config = load_pipeline(pipeline, overrides)
    page = AgentPage(config, pipeline)
    with serving(
        config.http,
        key="http.address",
        not_ready=page.not_ready,
        metrics=page.metrics,
        degraded=page.degraded,
    ) as http:

        def build() -> Agent:
            software = f"nearfar/{__version__}"
            return Agent(config, run_dir=run_dir, max_frames=frames, software=software, cancel=loading)

        try:
            agent = bounded.unless_stopped(stop, build, patience_s=CANCELLED_WITHIN_S)
        except bounded.StoppedError:
            process.leave(process.DONE)
        except Cancelled:  # stopped before it began: nothing was captured
            return
        page.shows(agent)
        runtime.settle()
        agent.start(
            ready=lambda: process.ready(
                agent=agent.identity.agent,
                run=agent.identity.run.hex(),
                state_dir=str(config.state_dir),
                run_dir=None if run_dir is None else str(run_dir),
                **({} if http is None else {"http": http}),
            )
        )
        if agent.wait(stop):
            agent.drain(stop, config.drain)
        agent.close()
    print(json.dumps(agent.summary()), file=sys.stderr)
    for promise in agent.broken:
        print(f"promise broken: {promise}", file=sys.stderr)
    code = process.FAILED if agent.broken else process.DONE
    if agent.left_behind:  # a thread that comes back from C code while Python ends would crash the process
        process.leave(code)
    sys.exit(code)
