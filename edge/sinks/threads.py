"""The sinks of a configuration, each behind a thread of its own and with a name of its own."""

import logging
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

from edge.sinks.base import Sink, SinkThread
from edge.sinks.delivery.postman import Postman
from edge.sinks.delivery.queue import QueueSink
from edge.sinks.delivery.spool import Spool
from edge.sinks.delivery.spool_file import SpoolFile
from edge.sinks.kinds import SINKS
from edge.sinks.place import Place
from edge.sinks.resequencer import Resequencer
from edge.sinks.words import words_of
from pipelines.errors import ConfigError
from pipelines.runtime import monotonic_us

log = logging.getLogger(__name__)

QUEUES_FOLDER = "sinks"
"""Of the state_dir: one file for each durable queue, called like its sink."""


class SinkSettings(Protocol):
    @property
    def kind(self) -> str: ...
    @property
    def name(self) -> str | None: ...
    @property
    def order(self) -> str: ...


def sink_names(configs: Sequence[SinkSettings]) -> list[str]:
    """The name of each: its own, or its kind, the second of a kind `jsonl-2` and so on."""
    seen: Counter[str] = Counter()
    names = []
    for config in configs:
        seen[config.kind] += 1
        many = seen[config.kind]
        names.append(config.name or (config.kind if many == 1 else f"{config.kind}-{many}"))
    return names


def build_sink(config: Any, place: Place) -> Sink:
    """One sink, with its queue if its kind has one. ConfigError when it cannot be made."""
    made: Any = SINKS[config.kind].resolve().from_config(config, place)
    if getattr(config, "queue", None) is None:
        sink: Sink = made
        return sink
    file = SpoolFile(queue_file(place)) if config.durable else None
    spool = Spool(
        max_bytes=config.queue.max_bytes,
        max_age_us=config.queue.max_age,
        clock_us=monotonic_us,
        file=file,
    )
    postman = Postman(spool, made, name=place.name, batch=config.batch)
    return QueueSink(spool=spool, postman=postman, durable=config.durable)


def queue_file(place: Place) -> Path:
    return place.folder / f"{place.name}.db"


def build_sinks(
    configs: Sequence[SinkSettings], *, agent: str, run: bytes, state_dir: Path
) -> list[SinkThread]:
    """Every sink behind its thread. When one cannot be made, none is left open."""
    made: list[SinkThread] = []
    folder = state_dir / QUEUES_FOLDER
    with ExitStack() as opened:
        for name, config in zip(sink_names(configs), configs, strict=True):
            try:
                sink = build_sink(config, Place(name=name, agent=agent, run=run, folder=folder))
            except OSError as error:
                raise ConfigError(f"the sink {name} cannot be made: {words_of(error)}") from error
            resequencer = Resequencer() if config.order == "seq" else None
            made.append(SinkThread(sink, name=name, resequencer=resequencer))
            opened.callback(made[-1].close)
        opened.pop_all()
    try:
        _tell_of_orphans(configs, folder)
    except OSError as error:
        log.warning("whether %s has queues of no sink cannot be told: %s", folder, words_of(error))
    return made


def _tell_of_orphans(configs: Sequence[Any], folder: Path) -> None:
    """A sink that was renamed or taken out leaves its queue behind: nobody would ever bring it."""
    durable = {
        f"{name}.db"
        for name, config in zip(sink_names(configs), configs, strict=True)
        if getattr(config, "durable", False)
    }
    for path in sorted(folder.glob("*.db")):
        if path.name not in durable:
            log.warning(
                "%s is the queue of no durable sink: name the sink it belongs to %s, or remove the file",
                path,
                path.stem,
            )
