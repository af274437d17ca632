"""`nearfar cloud --deploy KIND`: its options, the file of `serve deploy`, and the run in the foreground."""

import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cloud.deploy.kinds import DEPLOYMENTS
from nearfar import bounded, process
from nearfar.cli.outputs import writing

if TYPE_CHECKING:
    from cloud.config import WorkerConfig

deploy = click.option(
    "--deploy",
    type=click.Choice([kind.name for kind in DEPLOYMENTS]),
    help="Run replicas of the worker on Ray Serve (pip install 'nearfar[ray]'); see docs/ray.md.",
)
address = click.option(
    "--ray-address",
    default="",
    envvar="RAY_ADDRESS",
    metavar="ADDRESS",
    help="The Ray to join: auto, HOST:PORT. Left out: one is started, and ends with this command.",
)
write_config = click.option(
    "--write-config",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the file that `serve deploy FILE` takes, and start nothing; - is stdout.",
)
_PATIENCE_S = 5.0


def must_agree(kind: str | None, *, ray_address: str, write_config: Path | None) -> None:
    """Options that mean nothing without another one are refused; the environment may say what it likes."""
    context = click.get_current_context()
    typed = context.get_parameter_source("ray_address") is click.core.ParameterSource.COMMANDLINE
    if kind is None and (write_config is not None or (ray_address and typed)):
        raise click.UsageError("--ray-address and --write-config belong to --deploy ray")


def write(worker: Path | None, overrides: Sequence[str], where: Path) -> None:
    """Write the file of `serve deploy`."""
    import yaml  # noqa: PLC0415 - only here

    from cloud.config import load_worker  # noqa: PLC0415 - seconds of imports that help does not need
    from cloud.deploy.serve_options import serve_file  # noqa: PLC0415

    config = load_worker(worker, overrides)
    assert worker is not None  # noqa: S101 - load_worker refuses to go without
    text = yaml.safe_dump(serve_file(config, worker, overrides), sort_keys=False)
    head = f"# Ray Serve's file for {worker.absolute()}, which must be there on every node. Use: serve deploy FILE\n"
    if str(where) == "-":
        sys.stdout.write(head + text)
    else:
        with writing(where):
            where.write_text(head + text)


def run(
    kind: str,
    config: "WorkerConfig",
    *,
    worker: Path | None,
    overrides: Sequence[str],
    address: str,
    stop: threading.Event,
) -> None:
    """Deploy, say that it is ready, and take it down again once `stop` is set."""
    from nearfar.http import serving  # noqa: PLC0415

    running = DEPLOYMENTS[kind].resolve()(config, worker=worker, overrides=overrides, address=address)
    with serving(
        config.listen.http,
        key="listen.http.address",
        not_ready=running.not_ready,
        metrics=running.metrics_text,
    ) as http:
        try:
            bounded.unless_stopped(stop, running.join, patience_s=_PATIENCE_S)
            process.hear_signals_again()
            bounded.unless_stopped(stop, running.deploy, patience_s=_PATIENCE_S)
            process.ready(**running.ready_fields(), **({} if http is None else {"http": http}))
        except bounded.StoppedError:
            running.stop()
            process.leave(process.DONE)
        except BaseException:
            running.stop()
            raise
        stop.wait()
        clean = running.stop()
    if not clean:
        process.leave(process.FAILED)  # its thread may wait for Ray for ever
