"""The codec pool: pictures become payloads on threads of their own, so that no deadline waits for one."""

import logging
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass

from edge.scheduling.near_timeline import Key
from pipelines.codecs.base import Codec
from pipelines.errors import NearfarError
from pipelines.frame import Encoding, Picture

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Encoded:
    """A payload, or None when encoding failed. `encode_us` includes the wait for a thread."""

    key: Key
    data: bytes | None
    encoding: Encoding | None
    encode_us: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Order:
    key: Key
    picture: Picture
    quality: int
    size: tuple[int, int]
    asked_us: int


class Encoder:
    """`done` is called from a codec thread for every order."""

    def __init__(
        self,
        codec: Codec,
        *,
        done: Callable[[Encoded], None],
        clock_us: Callable[[], int],
        threads: int = 1,
    ) -> None:
        self._codec = codec
        self._done = done
        self._clock_us = clock_us
        self._orders: queue.SimpleQueue[_Order | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._run, name=f"encode-{i}", daemon=True) for i in range(threads)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def submit(self, key: Key, picture: Picture, *, quality: int, size: tuple[int, int]) -> None:
        """Encode `picture` scaled down to `size` (width_px, height_px)."""
        self._orders.put(
            _Order(key=key, picture=picture, quality=quality, size=size, asked_us=self._clock_us())
        )

    def close(self, timeout_s: float = 1.0) -> None:
        for _ in self._threads:
            self._orders.put(None)
        for thread in self._threads:
            thread.join(timeout_s)

    def _run(self) -> None:
        while (order := self._orders.get()) is not None:
            data: bytes | None = None
            encoding: Encoding | None = None
            try:
                data, encoding = self._codec.encode(order.picture, quality=order.quality, size=order.size)
            except NearfarError as error:
                log.warning("cannot encode %s/%d: %s", *order.key, error)
            except Exception:
                log.exception("cannot encode %s/%d", *order.key)
            encode_us = self._clock_us() - order.asked_us
            self._done(Encoded(key=order.key, data=data, encoding=encoding, encode_us=encode_us))
