"""From body to picture: for a free instance on its own thread; while all work, ahead of them on threads of the pool."""

import logging
import threading
from collections.abc import Callable, Mapping

from cloud.backlog import Backlog
from cloud.jobs import Failed, Job
from pipelines.codecs.base import Codec, PictureLimits
from pipelines.errors import Rejected
from pipelines.frame import Picture
from pipelines.pictures import for_detector
from protos.wire.session import RejectReason

log = logging.getLogger(__name__)


class DecodePool:
    """`codecs`: name on the wire → codec."""

    def __init__(
        self,
        *,
        threads: int,
        codecs: Mapping[str, Codec],
        limits: PictureLimits,
        backlog: Backlog,
        clock_us: Callable[[], int],
    ) -> None:
        self.codecs = codecs
        self._limits = limits
        self._backlog = backlog
        self._clock_us = clock_us
        self._threads = [
            threading.Thread(target=self._run, name=f"nearfar-decode-{i}", daemon=True)
            for i in range(threads)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self, timeout_s: float) -> None:
        """Call after the backlog was stopped."""
        for thread in self._threads:
            if thread.is_alive():
                thread.join(timeout_s)

    def _run(self) -> None:
        while (job := self._backlog.next_to_decode()) is not None:
            started_us = self._clock_us()
            picture = self.decode(job)
            self._backlog.decoded(job, picture, self._clock_us() - started_us)

    def decode(self, job: Job) -> Picture | Failed:
        """The picture of a frame, or why there is none. Safe to call from any thread."""
        codec = self.codecs[job.head.encoding.codec]
        try:
            return for_detector(codec.decode(_buffer(job), job.head.encoding, self._limits))
        except Rejected as error:
            return Failed(RejectReason.BAD_PAYLOAD, str(error))
        except Exception as error:
            log.exception("decoding %s failed", job.id)
            return Failed(RejectReason.FAILED, f"decoding failed: {error}")


def _buffer(job: Job) -> bytes | memoryview:
    return memoryview(job.body) if isinstance(job.body, bytearray) else job.body
