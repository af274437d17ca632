"""Decode threads: the most urgent body becomes a picture, just ahead of the detector that needs it."""

import logging
import threading
from collections.abc import Callable, Mapping

from cloud.backlog import Backlog
from cloud.jobs import Failed, Job
from pipelines.codecs.base import Codec, PictureLimits
from pipelines.errors import Rejected
from pipelines.frame import Picture
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
            picture = self._decode(job)
            self._backlog.decoded(job, picture, self._clock_us() - started_us)

    def _decode(self, job: Job) -> Picture | Failed:
        codec = self.codecs[job.head.encoding.codec]
        try:
            return codec.decode(_buffer(job), job.head.encoding, self._limits)
        except Rejected as error:
            return Failed(RejectReason.BAD_PAYLOAD, str(error))
        except Exception as error:
            log.exception("decoding %s failed", job.id)
            return Failed(RejectReason.FAILED, f"decoding failed: {error}")


def _buffer(job: Job) -> bytes | memoryview:
    return memoryview(job.body) if isinstance(job.body, bytearray) else job.body
