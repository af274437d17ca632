"""All streams of an agent: a source, a reader and a slot each, opened, started and ended together."""

import logging
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from edge.backoff import Backoff
from edge.capture.base import Shape
from edge.capture.camera_machine import Patience
from edge.capture.gatekeeper import Gatekeeper
from edge.capture.kinds import SOURCES, LiveSourceConfig
from edge.capture.publisher import Publisher
from edge.capture.reader import Reader
from edge.capture.slot import Slot
from edge.capture.state import StreamStatus
from edge.capture.watchdog import Watchdog
from edge.config.streams import StreamConfig
from edge.flow.stream_port import StreamPort
from pipelines.frame import Frame
from pipelines.gates.kinds import GATES
from protos.wire.session import StreamInfo

log = logging.getLogger(__name__)

RETRY_FIRST_US = 500_000
RETRY_MOST_US = 5_000_000
RETRY_JITTER = 0.25  # cameras behind one switch are not all opened at once


class StreamReader(Protocol):
    """What fills the slot of one stream."""

    @property
    def shape(self) -> Shape: ...
    def status(self) -> StreamStatus: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def close(self, timeout_s: float) -> bool: ...


@dataclass(slots=True)
class _Stream:
    port: StreamPort
    reader: StreamReader
    ended: bool = False


def unix_us() -> int:
    return time.time_ns() // 1000


class Streams:
    """Files and folders are opened at once: raises ConfigError or Fatal for one that cannot be. Cameras are opened by
    their own threads after `start`, for ever: one that is absent delays nothing.

    `ended` is set when every stream has ended by itself; `errors` are the words of those that failed. Callbacks come
    from the readers."""

    def __init__(
        self,
        configs: Mapping[str, StreamConfig],
        *,
        deadline_us: int,
        max_frames: int | None,
        offered: Callable[[str], None],
        overwritten: Callable[[Frame], None],
        stale: Callable[[Frame], None],
        gated: Callable[[Frame, str], None],
        captured: Callable[[str, int], None],
        clock_us: Callable[[], int],
    ) -> None:
        self.ended = threading.Event()
        self.errors: dict[str, str] = {}
        self._clock_us = clock_us
        self._deadline_us = deadline_us
        self._streams: dict[str, _Stream] = {}
        try:
            for index, (name, config) in enumerate(configs.items()):
                slot = Slot()
                keeper = None if config.gate is None else Gatekeeper(GATES.build(config.gate), gated=gated)
                publisher = Publisher(
                    stream=name,
                    slot=slot,
                    latency_us=config.source.latency,
                    paced=getattr(config.source, "frames", "latest") != "every",
                    max_frames=max_frames,
                    offered=offered,
                    overwritten=overwritten,
                    stale=stale,
                    captured=captured,
                    clock_us=clock_us,
                    unix_us=unix_us,
                    turned_away=None if keeper is None else keeper.turns_away,
                )
                port = StreamPort(name=name, index=index, slot=slot, priority=config.priority)
                reader = self._reader(config, publisher)
                if keeper is not None and getattr(config.source, "pace", "real_time") != "real_time":
                    keeper.filmed_at(reader.shape.fps)
                self._streams[name] = _Stream(port=port, reader=reader)
        except BaseException:  # of several files one cannot be opened: none stays open
            self.close(lambda: 0.0)
            raise

    @property
    def ports(self) -> Sequence[StreamPort]:
        return [stream.port for stream in self._streams.values()]

    @property
    def infos(self) -> tuple[StreamInfo, ...]:
        """As Hello names them; the size of a camera that has not given a picture yet is 0x0 unless it is configured."""
        shapes = {name: stream.reader.shape for name, stream in self._streams.items()}
        return tuple(
            StreamInfo(name=name, width_px=shape.width_px, height_px=shape.height_px)
            for name, shape in shapes.items()
        )

    @property
    def fps(self) -> float:
        """Frames per second of all streams together, as far as they are known."""
        return sum(stream.reader.shape.fps for stream in self._streams.values())

    @property
    def in_slots(self) -> int:
        """Frames that still lie in a slot."""
        return sum(1 for stream in self._streams.values() if stream.port.slot.peek() is not None)

    def states(self) -> dict[str, StreamStatus]:
        """How each stream is doing; from any thread."""
        return {name: stream.reader.status() for name, stream in self._streams.items()}

    @property
    def left_behind(self) -> list[str]:
        """Streams whose source, after `close`, still hangs in C code. Such a thread must not come back while the
        interpreter is being taken down: the process has to end without (`os._exit`)."""
        return [name for name, stream in self._streams.items() if not stream.reader.close(0.0)]

    def start(self) -> None:
        for stream in self._streams.values():
            stream.reader.start()

    def stop(self) -> None:
        """Capture nothing more; returns at once."""
        for stream in self._streams.values():
            stream.reader.stop()

    def close(self, patience_s: Callable[[], float]) -> None:
        """Stop all, then wait `patience_s()` for all together; those that hang in a read are left behind."""
        self.stop()
        end_us = self._clock_us() + round(patience_s() * 1e6)
        for stream in self._streams.values():
            stream.reader.close(max(0.0, (end_us - self._clock_us()) / 1e6))

    def _reader(self, config: StreamConfig, publisher: Publisher) -> StreamReader:
        source = config.source
        if isinstance(source, LiveSourceConfig):
            width_px, height_px = source.size or (0, 0)
            max_stale_us = self._deadline_us // 2 if source.max_stale is None else source.max_stale
            return Watchdog(
                connect=partial(SOURCES.build, source),
                publisher=publisher,
                patience=Patience(
                    open_us=source.open_timeout, stall_us=source.stall_after, max_stale_us=max_stale_us
                ),
                expected=Shape(width_px=width_px, height_px=height_px, fps=source.fps or 0.0),
                backoff=Backoff(
                    first_us=RETRY_FIRST_US, most_us=RETRY_MOST_US, jitter=RETRY_JITTER, dice=random.random
                ),
                ended=self._on_ended,
                clock_us=self._clock_us,
            )
        reader = Reader(
            source=SOURCES.build(source),
            publisher=publisher,
            pace=source.pace,
            frames=source.frames,
            ended=self._on_ended,
            clock_us=self._clock_us,
        )
        reader.open()
        return reader

    def _on_ended(self, name: str, error: str | None) -> None:
        if error:
            self.errors[name] = error
            log.error("stream %s: %s", name, error)
        self._streams[name].ended = True
        if all(stream.ended for stream in self._streams.values()):
            self.ended.set()
