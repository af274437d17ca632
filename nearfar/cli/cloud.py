"""`nearfar cloud`: run a worker, in this process or deployed where many run."""

import json
import sys
from pathlib import Path

import click

from nearfar import bounded, extras, process
from nearfar.cli import deployment, file_kind, options


@click.command(name="cloud")
@click.argument("worker", required=False, type=click.Path(path_type=Path))
@options.overrides
@click.option(
    "--processes",
    type=click.IntRange(0, 64),
    metavar="N",
    help="Run the models in N engine processes; the same as --set processes=N.",
)
@click.option("--log-level", default="warning", show_default=True, type=click.Choice(process.LOG_LEVELS))
@deployment.deploy
@deployment.address
@deployment.write_config
@click.option(
    "--explain", is_flag=True, help="Measure what the models cost here and what follows; serve nothing."
)
@click.option("--json", "as_json", is_flag=True, help="With --explain: as JSON.")
def command(
    *,
    worker: Path | None,
    overrides: tuple[str, ...],
    processes: int | None,
    log_level: str,
    deploy: str | None,
    ray_address: str,
    write_config: Path | None,
    explain: bool,
    as_json: bool,
) -> None:
    """Serve the models of WORKER to agents and keep one record per frame.

    Prints one JSON `ready` line with the bound addresses and runs until SIGTERM. Then it admits nothing more,
    finishes what it has, commits and acknowledges it. Exits 0 after a clean drain, 1 if work was left over,
    2 when WORKER has to be mended. With --deploy ray the same on the nodes of a Ray cluster.
    """
    if as_json and not explain:
        raise click.UsageError("--json goes with --explain")
    process.set_up_logging(log_level)
    if worker is not None:
        file_kind.must_be("worker", worker)
    if processes is not None:
        overrides = (*overrides, f"processes={processes}")
    deployment.must_agree(deploy, ray_address=ray_address, write_config=write_config)
    if deploy is not None and write_config is not None:
        deployment.write(worker, overrides, write_config)
        return
    if explain:  # nothing to drain: a signal simply ends it
        _explain(worker, overrides, as_json=as_json)
        return
    extras.must_have("cloud", extras.CLOUD, who="nearfar cloud")
    stop = process.stop_on_signals()
    from cloud.config import load_worker  # noqa: PLC0415 - models and stores load only when a worker runs
    from cloud.worker import Worker  # noqa: PLC0415
    from nearfar.http import serving  # noqa: PLC0415
    from pipelines import runtime  # noqa: PLC0415

    runtime.tune()
    config = load_worker(worker, overrides)
    if deploy is not None:
        deployment.run(deploy, config, worker=worker, overrides=overrides, address=ray_address, stop=stop)
        return
    running = Worker(config)
    with serving(
        config.listen.http,
        key="listen.http.address",
        not_ready=running.not_ready,
        degraded=running.degraded,
        metrics=running.metrics_text,
    ) as http:
        try:
            bounded.unless_stopped(stop, running.start)
        except bounded.StoppedError:  # before it served anybody
            process.leave(process.DONE)
        runtime.settle()
        addresses = {} if http is None else {"http": http}
        process.ready(**running.ready_fields(), **addresses)
        stop.wait()
        clean = running.drain()
        if running.left_behind:  # a run without end, or the disk: only the end of the process ends them
            process.leave(process.DONE if clean else process.FAILED)
    if not clean:
        sys.exit(process.FAILED)


def _explain(worker: Path | None, overrides: tuple[str, ...], *, as_json: bool) -> None:
    from cloud.config import load_worker  # noqa: PLC0415 - as above
    from cloud.models.cost_table import measure  # noqa: PLC0415
    from nearfar.cost_words import as_data, as_text  # noqa: PLC0415
    from nearfar.progress import Progress  # noqa: PLC0415
    from pipelines import runtime  # noqa: PLC0415

    runtime.tune()
    progress = Progress(clock_us=runtime.monotonic_us)
    try:
        table = measure(load_worker(worker, overrides), clock_us=runtime.monotonic_us, doing=progress.doing)
    finally:  # what went wrong is said on a line of its own
        progress.over()
    click.echo(json.dumps(as_data(table), indent=2) if as_json else as_text(table))
