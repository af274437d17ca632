"""From body to picture: for a free instance on its own thread; while all work, ahead of them on threads of the pool."""

import logging
import threading
from collections.abc import Callable, Mapping

from cloud.backlog.jobs import Failed, Job
from cloud.backlog.workshop import Workshop
from pipelines.codecs.base import Codec, PictureLimits
from pipelines.errors import Rejected
from pipelines.frame import Picture
from pipelines.log_throttle import LogThrottle
from pipelines.pictures import for_detector
from protos.wire.session import RejectReason

log = logging.getLogger(__name__)


class DecodePool:
    """`codecs`: name on the wire → codec. `failed` counts what nobody foresaw. The threads end once the backlog is
    stopped."""

    def __init__(
        self,
        *,
        threads: int,
        codecs: Mapping[str, Codec],
        limits: PictureLimits,
        work: Workshop,
        clock_us: Callable[[], int],
        failed: Callable[[], None],
    ) -> None:
        self.codecs = codecs
        self._limits = limits
        self._work = work
        self._clock_us = clock_us
        self._failed = failed
        self._trouble = LogThrottle(log, clock_us=clock_us)
        self.threads = [
            threading.Thread(target=self._run, name=f"nearfar-decode-{i}", daemon=True)
            for i in range(threads)
        ]

    def start(self) -> None:
        for thread in self.threads:
            thread.start()

    def _run(self) -> None:
        while True:
            try:
                if not self._decode_next():
                    return
            except Exception as error:  # noqa: BLE001 - said with its traceback
                self._failed()
                self._trouble.failed("decoding ahead", "failed, and goes on", error=error)

    def _decode_next(self) -> bool:
        """False once stopped."""
        job = self._work.next_to_decode()
        if job is None:
            return False
        started_us = self._clock_us()
        picture = self.decode(job)
        self._work.decoded(job, picture, self._clock_us() - started_us)
        return True

    def decode(self, job: Job) -> Picture | Failed:
        """The picture of a frame, or why there is none. Safe to call from any thread."""
        name = job.head.encoding.codec
        try:
            decoded = self.codecs[name].decode(_buffer(job), job.head.encoding, self._limits)
            picture = for_detector(decoded)
        except Rejected as error:
            return Failed(RejectReason.BAD_PAYLOAD, str(error))
        except Exception as error:  # noqa: BLE001 - said with its traceback
            self._trouble.failed(f"codec {name}", f"failed on {job.id}", error=error)
            return Failed(RejectReason.FAILED, f"decoding failed: {error}")
        self._trouble.worked(f"codec {name}")
        return picture


def _buffer(job: Job) -> bytes | memoryview:
    return memoryview(job.body) if isinstance(job.body, bytearray) else job.body
