"""Near: the local detector on its own thread, one run at a time, cancellable."""

import logging
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from edge.scheduling.key import Key
from pipelines.detectors.base import Cancelled, CancelToken, Detector
from pipelines.errors import NearfarError
from pipelines.frame import Picture
from pipelines.labels import LabelSpace
from pipelines.log_throttle import LogThrottle
from pipelines.pictures import for_detector
from pipelines.result import Detections, Status

log = logging.getLogger(__name__)


WARM_UP_RUNS = 8
WARM_UP_WITHIN_US = 1_000_000


def warm_up(
    detector: Detector,
    *,
    width_px: int,
    height_px: int,
    clock_us: Callable[[], int],
    cancel: CancelToken,
) -> list[int]:
    """A few runs on a grey picture, in µs, quickest first, without the first, which allocates.

    A slow detector is run less often. A run that fails is logged; the last error is raised when every run
    failed. Raises Cancelled after `cancel`.
    """
    begun_us = clock_us()
    picture = np.full((height_px, width_px, 3), 114, np.uint8)
    runs: list[int] = []
    for attempt in range(WARM_UP_RUNS):
        start_us = clock_us()
        try:
            detector.detect(picture, cancel)
        except Cancelled:
            raise
        except NearfarError as error:
            log.warning("near failed while warming up: %s", error)
            if attempt == WARM_UP_RUNS - 1 and not runs:
                raise
        else:
            runs.append(clock_us() - start_us)
        if runs and clock_us() - begun_us > WARM_UP_WITHIN_US:
            break
    return sorted(runs[1:] or runs)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NearRun:
    """What became of a run. `status` None = cancelled; `detections` only with `ok`. `small`: at the smaller input.
    `confidence` 0..1, None without an answer: the least sure box speaks for the picture, and who saw nothing is sure of
    nothing."""

    key: Key
    status: Status | None
    detections: Detections | None
    started_us: int
    run_us: int
    small: bool = False
    confidence: float | None = None


def _confidence(detections: Detections | None) -> float | None:
    if detections is None:
        return None
    return float(detections.scores.min()) if len(detections) else 0.0


class NearRunner:
    """`done` is called from the near thread after every run that was started. `labels` None: the detector's own;
    else what it detects is mapped into that space here, which only this thread may use. `smaller`: the same model at
    a smaller input, None without one."""

    def __init__(
        self,
        detector: Detector,
        *,
        done: Callable[[NearRun], None],
        clock_us: Callable[[], int],
        labels: LabelSpace | None = None,
        smaller: Detector | None = None,
    ) -> None:
        self._detector = detector
        self._smaller = detector if smaller is None else smaller
        self._done = done
        self._labels = labels
        self._clock_us = clock_us
        self._trouble = LogThrottle(log, clock_us=clock_us)
        self._jobs: queue.SimpleQueue[tuple[Key, Picture, CancelToken, bool] | None] = queue.SimpleQueue()
        self._current: tuple[Key, CancelToken] | None = None
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="near", daemon=True)

    @property
    def detector(self) -> Detector:
        return self._detector

    def start(self) -> None:
        self._thread.start()

    def submit(self, key: Key, picture: Picture, *, small: bool = False) -> None:
        """Run the detector on `picture`, at the smaller input if `small`; never called while another run is on."""
        token = CancelToken()
        with self._lock:
            self._current = (key, token)
        self._jobs.put((key, picture, token, small))

    def cancel(self, key: Key) -> None:
        """Stop the run of `key` if it is on."""
        with self._lock:
            current = self._current
        if current is not None and current[0] == key:
            current[1].cancel()

    def close(self, timeout_s: float = 1.0) -> None:
        with self._lock:
            current = self._current
        if current is not None:
            current[1].cancel()
        self._jobs.put(None)
        if self._thread.ident is not None:
            self._thread.join(timeout_s)

    def _run(self) -> None:
        try:
            self._run_jobs()
        finally:
            self._trouble.end()

    def _run_jobs(self) -> None:
        while (job := self._jobs.get()) is not None:
            key, picture, token, small = job
            detector = self._smaller if small else self._detector
            started_us = self._clock_us()
            status: Status | None = Status.FAILED
            detections = None
            try:
                detections = detector.detect(for_detector(picture), token)
                if self._labels is not None:
                    detections = self._labels.apply(detections)
                status = Status.OK
                self._trouble.worked("near")
            except Cancelled:
                status = None
            except NearfarError as error:
                detections = None
                self._trouble.failed(
                    "near", f"failed on {key[0]}/{key[1]}: {error}", kind=type(error).__name__
                )
            except Exception as error:  # noqa: BLE001 - said with its traceback
                detections = None
                self._trouble.failed("near", f"failed on {key[0]}/{key[1]}", error=error)
            with self._lock:
                self._current = None
            self._done(
                NearRun(
                    key=key,
                    status=status,
                    detections=detections,
                    started_us=started_us,
                    run_us=self._clock_us() - started_us,
                    small=small,
                    confidence=_confidence(detections),
                )
            )
