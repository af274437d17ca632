"""Sinks as a configuration describes them, made without a file."""

from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from edge.sinks.base import Sink
from edge.sinks.delivery.queue import QueueSink
from edge.sinks.kinds import SinkConfig
from edge.sinks.place import Place
from edge.sinks.threads import build_sink

RUN = bytes(16)


def sink_config(**settings: Any) -> Any:
    """A validated block; paths as given."""
    return TypeAdapter(SinkConfig).validate_python(settings)


def sink(folder: Path, *, name: str = "", agent: str = "gw", **settings: Any) -> Any:
    """The sink of `settings`, started, with whatever it keeps in `folder`."""
    config = sink_config(**settings)
    made: Sink = build_sink(
        config, Place(name=name or config.kind, agent=agent, run=RUN, folder=folder / "sinks")
    )
    if isinstance(made, QueueSink):
        made.start()
    return made
