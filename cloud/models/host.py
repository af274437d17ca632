"""The models of a worker: each with its instances, one thread an instance, which decodes and runs its frames.

A run that fails is answered as failed and hurts no other frame; an instance whose detector broke is built anew
while the rest go on. A model rebuilt from another file than the one announced at Hello is not used.
"""

import logging
import threading
from collections.abc import Callable

from cloud.backlog.jobs import Failed, Job
from cloud.backlog.lead import DetectorBrokenError, Lead
from cloud.backlog.workshop import Decoded, Workshop
from cloud.models.repairs import Repairs
from cloud.models.runs import run_pictures
from cloud.models.spec import ModelSpec
from cloud.models.warm_up import checked, warm_up
from cloud.telemetry.metrics import WorkerMetrics
from pipelines.detectors.base import Detector
from pipelines.frame import Picture
from pipelines.log_throttle import LogThrottle
from protos.wire.session import ModelInfo, RejectReason

log = logging.getLogger(__name__)


class ModelHost:
    """Owns the instances of one model and the threads that run them. `runs` since the start; `retried` of them failed as a
    batch and were run frame by frame."""

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
        self._trouble = LogThrottle(log, clock_us=clock_us)
        self.repairs = Repairs(spec.name, instances=spec.instances)
        self._stop = threading.Event()
        self._build_us = 0  # what the first build took, or the latest one anew
        self._detectors: list[Detector] = []  # by instance
        self.threads: list[threading.Thread] = []
        self.runs = 0
        self.retried = 0
        self.info = ModelInfo(name=spec.name, sha256="", labels=(), input_width_px=0, input_height_px=0)

    def start(self) -> None:
        """Build and warm up every instance, then serve. Raises what building raises; ConfigError for a wrong file."""
        begun_us = self._clock_us()
        first = self._build()
        self._build_us = self._clock_us() - begun_us
        self._detectors = [first, *(self._build() for _ in range(self._spec.instances - 1))]
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
        self._trouble.end()

    def _build(self) -> Detector:
        detector = checked(self._spec, sha256=self.info.sha256)
        seen = warm_up(
            detector,
            model=self._spec.name,
            runs=self._spec.warm_up,
            most=self._spec.batch.max,
            clock_us=self._clock_us,
        )
        self._work.ready(self._spec.name, change=1, seen=seen)
        return detector

    def run(self, lead: Lead) -> None:
        """Run a frame on the caller's thread, in the place of an instance that sleeps."""
        jobs, instance, broke = [lead.job], lead.seat.who, False
        try:
            broke = self._serve(jobs, instance)
        except Exception as error:  # noqa: BLE001 - told where it is handled
            self._unforeseen(jobs, instance, error)
        finally:
            self._work.led(self._spec.name, lead.seat, broke=broke)

    def _run(self, instance: int) -> None:
        while True:
            jobs: list[Job] = []
            broke = False
            try:
                jobs = self._work.take(self._spec.name, instance)
                if not jobs:
                    return
                broke = self._serve(jobs, instance)
            except DetectorBrokenError:
                broke = True
            except Exception as error:  # noqa: BLE001 - told where it is handled
                self._unforeseen(jobs, instance, error)
            if broke:
                self._work.broke(self._spec.name, back_us=self._build_us)
                rebuilt = self._rebuild(instance)
                if rebuilt is None:
                    return
                self._detectors[instance] = rebuilt

    def _serve(self, jobs: list[Job], instance: int) -> bool:
        """Decode those that nobody has, and run them; True if the detector broke."""
        run = self._begin(jobs, instance)
        return bool(run) and self._detect(run, instance, self._detectors[instance])

    def _unforeseen(self, jobs: list[Job], instance: int, error: Exception) -> None:
        """A fault of ours: it costs the frames of one run, never the instance."""
        which = ", ".join(str(job.id) for job in jobs) or "no frame"
        self._trouble.failed(f"model {self._spec.name}", f"failed on {which}, and goes on", error=error)
        self._metrics.fault("model")
        if not jobs:
            return
        try:
            words = Failed(RejectReason.FAILED, f"this worker failed on it: {error}")
            self._work.abandoned(jobs, instance, words)
        except Exception:
            log.exception("model %s: nobody could be told", self._spec.name)

    def _begin(self, jobs: list[Job], instance: int) -> list[Job]:
        """Those that may be run, after decoding the ones that are not decoded yet."""
        if all(job.picture is not None for job in jobs):
            return jobs
        decoded: list[Decoded] = []
        for job in jobs:
            if job.picture is None:
                started_us = self._clock_us()
                picture = self._decode(job)
                decoded.append((job, picture, self._clock_us() - started_us))
        return self._work.begin(jobs, instance, decoded)

    def _detect(self, jobs: list[Job], instance: int, detector: Detector) -> bool:
        """Run them and hand their end over; True if the detector broke."""
        pictures = [job.picture for job in jobs if job.picture is not None]
        assert len(pictures) == len(jobs), "a decoded job has a picture"  # noqa: S101 - an invariant of the backlog
        done = run_pictures(detector, pictures, max_detections=self._max_detections, clock_us=self._clock_us)
        self.runs += 1
        self.retried += len(jobs) > 1 and not done.sound
        for job, outcome in zip(jobs, done.outcomes, strict=True):
            if isinstance(outcome, Failed) and outcome.reason is RejectReason.FAILED:
                self._trouble.failed(
                    f"model {self._spec.name}", f"failed on {job.id}: {outcome.text}", kind="run"
                )
            else:
                self._trouble.worked(f"model {self._spec.name}")
        self._work.detected(jobs, instance, done.outcomes, run_us=done.run_us, sound=done.sound)
        return done.broke

    def _rebuild(self, instance: int) -> Detector | None:
        """It, made anew, however long that takes; None once stopped."""
        wait_s, begun_us = 0.0, self._clock_us()
        while not self._stop.wait(wait_s):
            try:
                detector = self._build()
            except Exception as error:  # noqa: BLE001 - tried again until it works
                if self._stop.is_set():
                    return None  # engines were ended under it: nothing is amiss
                wait_s = self.repairs.failed(instance, error)
            else:
                self.repairs.mended(instance)
                self._build_us = self._clock_us() - begun_us
                self._metrics.model_restarts.labels(self._spec.name).inc()
                return detector
        return None
