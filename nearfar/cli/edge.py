"""`nearfar edge`: run the agent of one gateway."""

import json
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nearfar import __version__, process
from nearfar.cli import options
from pipelines.errors import ConfigError, Problem

if TYPE_CHECKING:
    from edge.agent import Agent
    from edge.config import PipelineConfig

METRICS_NEED = "prometheus_client"
CANCELLED_WITHIN_S = 1.0


def need_metrics(config: "PipelineConfig", file: Path) -> None:
    """Raises ConfigError when `config` has an `http` block and the extra behind it is not installed."""
    if config.http is not None and find_spec(METRICS_NEED) is None:
        words = f"needs {METRICS_NEED}; run: pip install 'nearfar[metrics]', or leave http out"
        raise ConfigError(Problem(words, "http", str(file)))


class Page:
    """What the agent's `/readyz` and `/metrics` say from before it is built until it has ended.

    Raises ConfigError when `config` asks for it and the extra `metrics` is not installed.
    """

    def __init__(self, config: "PipelineConfig", file: Path) -> None:
        need_metrics(config, file)
        self._config = config
        self._agent: Agent | None = None
        self._text: Callable[[], bytes] = bytes

    def shows(self, agent: "Agent") -> None:
        """From now on the page is about `agent`."""
        self._agent = agent
        if self._config.http is None:
            return
        from edge.metrics import AgentMetrics  # noqa: PLC0415 - an extra

        self._text = AgentMetrics(
            agent.vitals,
            agent=agent.identity.agent,
            run=agent.identity.run.hex(),
            policy=self._config.scheduler.policy,
            version=__version__,
            deadline_us=self._config.deadline,
            outbox_max_bytes=self._config.outbox.max_bytes,
        ).text

    def not_ready(self) -> list[str]:
        return ["it is starting"] if self._agent is None else self._agent.not_ready()

    def metrics(self) -> bytes:
        return self._text()


@click.command(name="edge")
@click.argument("pipeline", type=click.Path(path_type=Path))
@click.option(
    "--run-dir",
    type=click.Path(path_type=Path),
    help="Write frames, link and summary here; `nearfar report` makes a page of it.",
)
@click.option("--frames", type=click.IntRange(min=1), help="Stop each stream after this many frames.")
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
    from pipelines.detectors.base import Cancelled, CancelToken  # noqa: PLC0415

    loading = CancelToken()
    stop = process.stop_on_signals(loading.cancel)
    from edge.agent import Agent  # noqa: PLC0415 - cv2 and the model engine load only when an agent runs
    from edge.config import load_pipeline  # noqa: PLC0415
    from nearfar.http import serving  # noqa: PLC0415
    from pipelines import runtime  # noqa: PLC0415

    runtime.tune()
    config = load_pipeline(pipeline, overrides)
    page = Page(config, pipeline)
    with serving(config.http, key="http.address", not_ready=page.not_ready, metrics=page.metrics) as http:
        made: list[Agent] = []

        def build() -> None:
            software = f"nearfar/{__version__}"
            made.append(Agent(config, run_dir=run_dir, max_frames=frames, software=software, cancel=loading))

        try:
            if not process.start_unless_stopped(stop, build, patience_s=CANCELLED_WITHIN_S):
                process.leave(process.DONE)
        except Cancelled:  # stopped before it began: nothing was captured
            return
        (agent,) = made
        page.shows(agent)
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
