"""One run of a model on one or several pictures, and what became of each.

A batch that fails is run once more, picture by picture, so that one that is poisoned hurts only itself. Whatever
a detector throws is an outcome.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cloud.backlog.jobs import Detected, Failed, Outcome
from pipelines.detectors.base import BatchDetector, Detector
from pipelines.errors import Rejected
from pipelines.frame import Picture
from pipelines.result import Detections
from protos.wire.session import RejectReason


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """`outcomes`: one per picture, in order. `sound`: `run_us` says what such a run costs. `broke`: the detector is
    not to be used any more."""

    outcomes: Sequence[Outcome]
    run_us: int
    sound: bool
    broke: bool = False


def run_pictures(
    detector: Detector, pictures: Sequence[Picture], *, max_detections: int, clock_us: Callable[[], int]
) -> RunEnd:
    """Run `pictures`, at least one; several only on a detector that takes so many at once."""
    started_us = clock_us()
    if len(pictures) > 1:
        try:
            assert isinstance(detector, BatchDetector)  # noqa: S101 - judged when it was built
            found = detector.detect_batch(pictures)
            run_us = clock_us() - started_us
            outcomes = [
                _detected(detector, each, run_us, max_detections)
                for each, _ in zip(found, pictures, strict=True)
            ]
        except Exception:  # noqa: BLE001 - told apart below, picture by picture
            return _one_by_one(detector, pictures, max_detections, clock_us, started_us)
        return RunEnd(outcomes=outcomes, run_us=run_us, sound=True)
    (picture,) = pictures
    outcome, broke = _alone(detector, picture, max_detections, clock_us)
    return RunEnd(
        outcomes=[outcome],
        run_us=clock_us() - started_us,
        sound=isinstance(outcome, Detected),
        broke=broke,
    )


def _one_by_one(
    detector: Detector,
    pictures: Sequence[Picture],
    max_detections: int,
    clock_us: Callable[[], int],
    started_us: int,
) -> RunEnd:
    each = [_alone(detector, picture, max_detections, clock_us) for picture in pictures]
    return RunEnd(
        outcomes=[outcome for outcome, _ in each],
        run_us=clock_us() - started_us,
        sound=False,
        broke=any(broke for _, broke in each),
    )


def _alone(
    detector: Detector, picture: Picture, max_detections: int, clock_us: Callable[[], int]
) -> tuple[Outcome, bool]:
    """`(outcome, whether the detector broke)`."""
    started_us = clock_us()
    try:
        found = detector.detect(picture)
    except Rejected as error:
        return Failed(RejectReason.BAD_PAYLOAD, str(error)), False
    except Exception as error:  # noqa: BLE001 - whatever a detector throws must not end the worker
        return Failed(RejectReason.FAILED, f"the model run failed: {error}"), True
    return _detected(detector, found, clock_us() - started_us, max_detections), False


def _detected(detector: Detector, found: Detections, detect_us: int, most: int) -> Detected:
    if len(found) > most:
        found = Detections(found.boxes[:most], found.scores[:most], found.class_ids[:most], found.labels)
    return Detected(detections=found, model_sha256=detector.sha256, detect_us=detect_us)
