"""All streams of an agent: a source, a reader and a slot each, opened, started and ended together."""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from edge.blocks import StreamConfig
from edge.capture.base import Shape, Source
from edge.capture.kinds import SOURCES
from edge.capture.reader import Reader
from edge.capture.slot import Slot
from edge.stream_port import StreamPort
from pipelines.frame import Frame
from protos.wire.session import StreamInfo

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Stream:
    port: StreamPort
    reader: Reader
    shape: Shape
    ended: bool = False


def unix_us() -> int:
    return time.time_ns() // 1000


class Streams:
    """Sources are opened at once: raises ConfigError or Fatal for one that cannot be. `ended` is set when every
    stream has ended by itself; `errors` are the words of those that failed. Callbacks come from the readers."""

    def __init__(
        self,
        configs: Mapping[str, StreamConfig],
        *,
        max_frames: int | None,
        offered: Callable[[str], None],
        overwritten: Callable[[Frame], None],
        captured: Callable[[str, int], None],
        clock_us: Callable[[], int],
    ) -> None:
        self.ended = threading.Event()
        self.errors: dict[str, str] = {}
        self._streams: dict[str, _Stream] = {}
        for index, (name, config) in enumerate(configs.items()):
            source: Source = SOURCES.build(config.source)
            slot = Slot()
            reader = Reader(
                stream=name,
                source=source,
                slot=slot,
                pace=config.source.pace,
                frames=config.source.frames,
                latency_us=config.source.latency,
                max_frames=max_frames,
                offered=offered,
                overwritten=overwritten,
                captured=captured,
                ended=self._on_ended,
                clock_us=clock_us,
                unix_us=unix_us,
            )
            port = StreamPort(name=name, index=index, slot=slot, priority=config.priority)
            self._streams[name] = _Stream(port=port, reader=reader, shape=reader.open())

    @property
    def ports(self) -> Sequence[StreamPort]:
        return [stream.port for stream in self._streams.values()]

    @property
    def infos(self) -> tuple[StreamInfo, ...]:
        """As Hello names them."""
        return tuple(
            StreamInfo(name=name, width_px=s.shape.width_px, height_px=s.shape.height_px)
            for name, s in self._streams.items()
        )

    @property
    def fps(self) -> float:
        """Frames per second of all streams together."""
        return sum(stream.shape.fps for stream in self._streams.values())

    @property
    def in_slots(self) -> int:
        """Frames that still lie in a slot."""
        return sum(1 for stream in self._streams.values() if stream.port.slot.peek() is not None)

    def start(self) -> None:
        for stream in self._streams.values():
            stream.reader.start()

    def stop(self) -> None:
        """Capture nothing more; returns at once."""
        for stream in self._streams.values():
            stream.reader.stop()

    def close(self, patience_s: Callable[[], float]) -> None:
        """Stop all, then wait `patience_s()` for each; one that hangs in a read is left behind."""
        self.stop()
        for stream in self._streams.values():
            stream.reader.close(patience_s())

    def _on_ended(self, name: str, error: str | None) -> None:
        if error:
            self.errors[name] = error
            log.error("stream %s: %s", name, error)
        self._streams[name].ended = True
        if all(stream.ended for stream in self._streams.values()):
            self.ended.set()
