"""The codec pool: pictures become payloads on threads of their own, so that no deadline waits for one."""

import logging
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from edge.scheduling.key import Key
from pipelines.codecs.base import Codec
from pipelines.errors import NearfarError
from pipelines.frame import Encoding, Picture
from pipelines.log_throttle import LogThrottle

log = logging.getLogger(__name__)

_MOST_SAID = 64


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Encoded:
    """A payload, or None when encoding failed, with the reason. `rung` is the one ordered; `encode_us` includes the
    wait for a thread."""

    key: Key
    rung: int
    data: bytes | None
    encoding: Encoding | None
    encode_us: int
    failed: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Order:
    key: Key
    picture: Picture
    rung: int
    quality: int
    size: tuple[int, int]
    asked_us: int


class Encoder:
    """`codecs[i]` makes the payloads of rung i of the ladder. `done` is called from a codec thread for every order. A
    reason not to encode is said once per stream: a camera whose pictures the rung cannot carry would say it with every
    frame."""

    def __init__(
        self,
        codecs: Sequence[Codec],
        *,
        done: Callable[[Encoded], None],
        clock_us: Callable[[], int],
        threads: int = 1,
    ) -> None:
        self._codecs = tuple(codecs)
        self._done = done
        self._clock_us = clock_us
        self._said: set[tuple[str, str]] = set()
        self._trouble = LogThrottle(log, clock_us=clock_us)
        self._orders: queue.SimpleQueue[_Order | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._run, name=f"encode-{i}", daemon=True) for i in range(threads)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def submit(self, key: Key, picture: Picture, *, rung: int, quality: int, size: tuple[int, int]) -> None:
        """Encode `picture` by the codec of `rung`, scaled down to `size` (width_px, height_px)."""
        self._orders.put(
            _Order(key=key, picture=picture, rung=rung, quality=quality, size=size, asked_us=self._clock_us())
        )

    def close(self, timeout_s: float = 1.0) -> None:
        for _ in self._threads:
            self._orders.put(None)
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(timeout_s)

    def _run(self) -> None:
        while (order := self._orders.get()) is not None:
            data: bytes | None = None
            encoding: Encoding | None = None
            failed = ""
            try:
                codec = self._codecs[order.rung]
                data, encoding = codec.encode(order.picture, quality=order.quality, size=order.size)
            except NearfarError as error:
                failed = f"not encoded: {error}"
                self._say_once(order.key[0], str(error))
            except Exception as error:  # noqa: BLE001 - said with its traceback
                failed = f"not encoded: {type(error).__name__}"
                stream, seq = order.key
                self._trouble.failed(f"stream {stream}", f"cannot be encoded at {seq}", error=error)
            else:
                self._trouble.worked(f"stream {order.key[0]}")
            encode_us = self._clock_us() - order.asked_us
            self._done(
                Encoded(
                    key=order.key,
                    rung=order.rung,
                    data=data,
                    encoding=encoding,
                    encode_us=encode_us,
                    failed=failed,
                )
            )

    def _say_once(self, stream: str, words: str) -> None:
        if (stream, words) not in self._said and len(self._said) < _MOST_SAID:
            self._said.add((stream, words))
            log.warning("stream %s cannot be offloaded, near answers: %s", stream, words)
