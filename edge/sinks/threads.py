"""The sinks of a configuration, each behind a thread of its own and with a name of its own."""

from collections import Counter
from collections.abc import Sequence
from typing import Protocol

from edge.sinks.base import SinkThread
from edge.sinks.kinds import SINKS
from pipelines.errors import NearfarError


class SinkSettings(Protocol):
    @property
    def kind(self) -> str: ...


def build_sinks(configs: Sequence[SinkSettings]) -> list[SinkThread]:
    """Named by kind, the second of a kind `jsonl-2` and so on. When one cannot be made, none is left open."""
    seen: Counter[str] = Counter()
    made: list[SinkThread] = []
    for config in configs:
        seen[config.kind] += 1
        many = seen[config.kind]
        name = config.kind if many == 1 else f"{config.kind}-{many}"
        try:
            made.append(SinkThread(SINKS.build(config), name=name))
        except NearfarError:
            for sink in made:
                sink.close()
            raise
    return made
