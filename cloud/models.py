"""The models of a worker: each with its instances, one thread an instance, which decodes and runs its frames.

A run that fails is answered as failed and hurts no other frame; an instance whose engine broke is built anew
while the rest go on. A model rebuilt from another file than the one announced at Hello is not used.
"""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cloud.jobs import Detected, Failed, Job
from cloud.metrics import WorkerMetrics
from cloud.workshop import EngineBrokeError, Lead, Workshop
from pipelines.detectors.base import Detector
from pipelines.errors import ConfigError, Fatal, Rejected
from pipelines.frame import Picture
from pipelines.result import Detections
from protos.wire.session import ModelInfo, RejectReason

log = logging.getLogger(__name__)

_REBUILD_S = 0.2
_REBUILD_MAX_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """How to build one model. `sha256`: refuse any other file (None: take what there is)."""

    name: str
    build: Callable[[], Detector]
    instances: int = 1
    warm_up: int = 3
    sha256: str | None = None


class ModelHost:
    """Owns the instances of one model and the threads that run them."""

    def __init__(
        self,
        spec: ModelSpec,
        *,
        work: Workshop,
        decode: Callable[[Job], Picture | Failed],
        metrics: WorkerMetrics,
        max_detections: int,
        clock_us: Callable[[], int],
    ) -> None:
        self._spec = spec
        self._work = work
        self._decode = decode
        self._metrics = metrics
        self._max_detections = max_detections
        self._clock_us = clock_us
        self._stop = threading.Event()
        self._detectors: list[Detector] = []  # by instance
        self.threads: list[threading.Thread] = []
        self.info = ModelInfo(name=spec.name, sha256="", labels=(), input_width_px=0, input_height_px=0)

    def start(self) -> None:
        """Build and warm up every instance, then serve. Raises what building raises; ConfigError for a wrong file."""
        self._detectors = [self._build() for _ in range(self._spec.instances)]
        first = self._detectors[0]
        width_px, height_px = first.input_size
        self.info = ModelInfo(
            name=self._spec.name,
            sha256=first.sha256,
            labels=first.labels,
            input_width_px=width_px,
            input_height_px=height_px,
        )
        for i in range(self._spec.instances):
            thread = threading.Thread(
                target=self._run,
                args=(i,),
                name=f"nearfar-detect-{self._spec.name}-{i}",
                daemon=True,
            )
            self.threads.append(thread)
            thread.start()

    def halt(self) -> None:
        """Build no instance anew; the threads end once the backlog is stopped too."""
        self._stop.set()

    def _build(self) -> Detector:
        detector = self._spec.build()
        wanted = self._spec.sha256 or self.info.sha256
        if wanted and detector.sha256 != wanted:
            raise ConfigError(
                f"models.{self._spec.name}: the file has sha256 {detector.sha256}, wanted is {wanted}; "
                "put the right file in place or change models.…sha256"
            )
        width_px, height_px = detector.input_size
        picture = np.zeros((height_px, width_px, 3), np.uint8)
        service_us: int | None = None
        for _ in range(self._spec.warm_up):
            started_us = self._clock_us()
            try:
                detector.detect(picture)
            except Fatal as error:
                raise Fatal(f"model {self._spec.name} fails on an empty picture: {error}") from error
            service_us = self._clock_us() - started_us
        self._work.ready(self._spec.name, change=1, service_us=service_us)
        return detector

    def run(self, lead: Lead) -> None:
        """Run a frame on the caller's thread, in the place of an instance that sleeps."""
        broke = False
        try:
            broke = self._serve(lead.job, lead.seat.who)
        except Exception as error:  # noqa: BLE001 - told where it is handled
            self._unforeseen(lead.job, lead.seat.who, error)
        finally:
            self._work.led(self._spec.name, lead.seat, broke=broke)

    def _run(self, instance: int) -> None:
        while True:
            job: Job | None = None
            broke = False
            try:
                job = self._work.take(self._spec.name, instance)
                if job is None:
                    return
                broke = self._serve(job, instance)
            except EngineBrokeError:
                broke = True
            except Exception as error:  # noqa: BLE001 - told where it is handled
                self._unforeseen(job, instance, error)
            if broke:
                self._work.ready(self._spec.name, change=-1)
                rebuilt = self._rebuild()
                if rebuilt is None:
                    return
                self._detectors[instance] = rebuilt

    def _serve(self, job: Job, instance: int) -> bool:
        """Decode it if nobody has, and run it; True if the engine broke."""
        ready = job.picture is not None or self._begin(job, instance)
        return ready and self._detect(job, instance, self._detectors[instance])

    def _unforeseen(self, job: Job | None, instance: int, error: Exception) -> None:
        """A fault of ours: it costs one frame, never the instance."""
        which = job.id if job else "no frame"
        log.error("model %s failed on %s, and goes on", self._spec.name, which, exc_info=error)
        self._metrics.fault("model")
        if job is None:
            return
        try:
            words = Failed(RejectReason.FAILED, f"this worker failed on it: {error}")
            self._work.abandoned(job, instance, words)
        except Exception:
            log.exception("model %s: nobody could be told", self._spec.name)

    def _begin(self, job: Job, instance: int) -> bool:
        """Decode the frame; whether it may be run."""
        started_us = self._clock_us()
        picture = self._decode(job)
        return self._work.begin(job, instance, picture, self._clock_us() - started_us)

    def _detect(self, job: Job, instance: int, detector: Detector) -> bool:
        """Run one frame and hand its end over; True if the engine broke."""
        picture = job.picture
        assert picture is not None, "a decoded job has a picture"  # noqa: S101 - an invariant of the backlog
        try:
            detections = detector.detect(picture)
        except Rejected as error:
            words = Failed(RejectReason.BAD_PAYLOAD, str(error))
            self._work.detected(job, instance, words, detect_us=None)
            return False
        except Exception as error:  # noqa: BLE001 - whatever an engine throws must not end the worker
            log.warning("model %s failed on %s: %s", self._spec.name, job.id, error)
            self._work.detected(
                job, instance, Failed(RejectReason.FAILED, f"the model run failed: {error}"), detect_us=None
            )
            return True
        detect_us = self._clock_us() - job.started_us
        outcome = Detected(
            detections=_first(detections, self._max_detections),
            model_sha256=detector.sha256,
            detect_us=detect_us,
        )
        self._work.detected(job, instance, outcome, detect_us=detect_us)
        return False

    def _rebuild(self) -> Detector | None:
        """A new instance, however long it takes; None once stopped."""
        wait_s = 0.0
        while not self._stop.wait(wait_s):
            try:
                detector = self._build()
            except Exception as error:  # noqa: BLE001 - tried again until it works
                wait_s = min(max(_REBUILD_S, 2 * wait_s), _REBUILD_MAX_S)
                log.warning(
                    "model %s cannot be rebuilt, next try in %.1f s: %s", self._spec.name, wait_s, error
                )
            else:
                self._metrics.model_restarts.labels(self._spec.name).inc()
                return detector
        return None


def _first(detections: Detections, most: int) -> Detections:
    if len(detections) <= most:
        return detections
    return Detections(
        detections.boxes[:most], detections.scores[:most], detections.class_ids[:most], detections.labels
    )
