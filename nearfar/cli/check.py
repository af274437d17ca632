"""`nearfar check`: every problem of a file at once, or what it will do."""

from collections.abc import Iterator
from pathlib import Path

import click

from cloud.config import WorkerConfig, load_worker
from cloud.listeners.kinds import LISTENERS, REFLECTION
from cloud.models.thread_plan import ThreadPlan, thread_plan
from cloud.store.kinds import STORES
from edge.capture.kinds import SOURCES
from edge.config.pipeline import PipelineConfig, load_pipeline
from edge.config.warnings import warnings
from edge.links.kinds import LINKS, LinkConfig
from edge.sinks.kinds import SINKS
from nearfar.agent_page import need_metrics
from nearfar.cli import options
from nearfar.cli.batch_check import must_take_batches
from nearfar.cli.file_kind import kind_of
from nearfar.paths import shown
from pipelines.codecs.kinds import CODECS
from pipelines.detectors.kinds import DETECTORS
from pipelines.document import Document
from pipelines.errors import ConfigError, Problem
from pipelines.gates.kinds import GATES
from pipelines.redaction import redacted
from pipelines.registry import Kind
from pipelines.trackers.kinds import TRACKERS
from pipelines.units import format_duration, format_extent, format_size


@click.command(name="check")
@click.argument("file", type=click.Path(path_type=Path))
@options.overrides
def command(file: Path, overrides: tuple[str, ...]) -> None:
    """Check FILE, a pipeline or a worker (told apart by what it holds).

    Prints what it will do and exits 0, or every problem with its line and exits 2. Starts nothing, loads no
    model; files it names must exist and the extras it needs must be installed. Of a model that is to run batches it
    reads what the file declares.
    """
    kind = kind_of(Document.read(file).data)
    if kind == "pipeline":
        pipeline = load_pipeline(file, overrides)
        _need_extras(_pipeline_kinds(pipeline), file)
        need_metrics(pipeline, file)
        lines, said = _pipeline_lines(pipeline), warnings(pipeline)
    elif kind == "worker":
        worker = load_worker(file, overrides)
        _need_extras(_worker_kinds(worker), file)
        must_take_batches(worker, file)
        plan = thread_plan(worker)
        lines, said = _worker_lines(worker, plan), [plan.warning] if plan.warning else []
    else:
        raise ConfigError(
            Problem(
                "is neither a pipeline (it has no `streams`) nor a worker (no `listen`); "
                "the files of pipelines/recipes are some to start from",
                file=str(file),
            )
        )
    click.echo(f"{file}: ok")
    for line in lines:
        click.echo(f"  {line}")
    for sentence in said:
        click.echo(f"  warning: {sentence}")
    if kind == "pipeline":
        click.echo(f"  nothing was started; to try it for real: nearfar doctor {file}")


def _need_extras(kinds: Iterator[tuple[str, Kind]], file: Path) -> None:
    problems = [
        Problem(
            f"{kind.name} needs {', '.join(kind.missing)}; run: pip install 'nearfar[{kind.extra}]'",
            path,
            str(file),
        )
        for path, kind in kinds
        if kind.missing
    ]
    if problems:
        raise ConfigError(*problems)


def _pipeline_kinds(config: PipelineConfig) -> Iterator[tuple[str, Kind]]:
    for name, stream in config.streams.items():
        yield f"streams.{name}.source", SOURCES[stream.source.kind]
        if stream.gate is not None:
            yield f"streams.{name}.gate", GATES[stream.gate.kind]
    if config.tracker is not None:
        yield "tracker", TRACKERS[config.tracker.kind]
    if config.near is not None:
        yield "near.detector", DETECTORS[config.near.detector.kind]
    for name, link in config.links.items():
        yield f"links.{name}.url", LINKS[link.url.partition("://")[0]]
    for position, rung in enumerate(config.scheduler.ladder):
        yield f"scheduler.ladder.{position}.codec", CODECS[rung.codec]
    for position, sink in enumerate(config.sinks):
        yield f"sinks.{position}", SINKS[sink.kind]


def _worker_kinds(config: WorkerConfig) -> Iterator[tuple[str, Kind]]:
    for listener in LISTENERS:
        if getattr(config.listen, listener.name) is not None:
            yield f"listen.{listener.name}", listener
    if config.listen.grpc is not None and config.listen.grpc.reflection:
        yield "listen.grpc.reflection", REFLECTION
    for name, model in config.models.items():
        yield f"models.{name}.detector", DETECTORS[model.detector.kind]
    yield "store.url", STORES[config.store.kind]


def _pipeline_lines(config: PipelineConfig) -> list[str]:
    streams = ", ".join(f"{name} ({stream.source.kind})" for name, stream in config.streams.items())
    outbox = config.outbox
    agent = config.agent or "(named at the first start)"
    bounds = f"up to {format_size(outbox.max_bytes)} and {format_duration(outbox.max_age)}"
    return [
        f"pipeline of agent {agent}: deadline {format_duration(config.deadline)}, policy {config.scheduler.policy}",
        f"streams: {streams}",
        _near_line(config),
        "far: "
        + (", ".join(_link(name, link) for name, link in config.links.items()) or "no link")
        + (f", model {config.far.model}" if config.far.model else ""),
        f"outbox: {bounds} in {shown(config.state_dir)}",
    ]


def _batch_words(config: WorkerConfig, name: str) -> str:
    batch = config.models[name].batch or config.batch
    return "" if batch.max == 1 else f", batches of up to {batch.max}"


def _link(name: str, link: LinkConfig) -> str:
    budget = link.data_budget
    said = [
        *(["metered"] if link.metered else []),
        *([f"{format_size(budget.per_hour)} an hour"] if budget is not None and budget.per_hour else []),
        *([f"{format_size(budget.per_day)} a day"] if budget is not None and budget.per_day else []),
    ]
    return f"{name} {link.url}" + (f" ({', '.join(said)})" if said else "")


def _near_line(config: PipelineConfig) -> str:
    """Everything that may answer when far does not, in the order in which it is tried."""
    near, tracker = config.near, config.tracker
    words = ["none"] if near is None else [f"{near.detector.kind} at {format_extent(near.detector.input)}"]
    if near is not None and near.smaller is not None:
        words.append(f"then at {format_extent(near.smaller.input)}")
    if tracker is not None:
        words.append(f"then tracked ({tracker.kind}) for {tracker.max_age} frames")
    return "near: " + ", ".join(words)


def _worker_lines(config: WorkerConfig, plan: ThreadPlan) -> list[str]:
    models = ", ".join(
        f"{name} ({model.detector.kind} at {format_extent(model.detector.input)}, "
        f"{model.instances} × {plan.threads[name]} threads{_batch_words(config, name)})"
        for name, model in config.models.items()
    )
    doors = ((name, getattr(config.listen, name)) for name in type(config.listen).model_fields)
    return [
        f"worker {config.name}: " + ", ".join(f"{name} {door.address}" for name, door in doors if door),
        f"models: {models}; default {config.default_model}",
        *([f"engine processes: {config.processes}, each with these models"] if config.processes else []),
        f"store: {_shown_url(config.store.url)}",
        f"records: kept {'for ever' if config.store.keep is None else f'for {format_duration(config.store.keep)}'}",
        *_picture_lines(config),
    ]


def _picture_lines(config: WorkerConfig) -> list[str]:
    pictures = config.store.payloads
    if pictures is None:
        return []
    return [
        f"pictures: up to {format_size(pictures.max_bytes)} in {shown(pictures.path)}, live ones: {pictures.keep}"
    ]


def _shown_url(url: str) -> str:
    scheme, separator, path = url.partition(":///")
    return f"{scheme}{separator}{shown(path)}" if separator else redacted(url)
