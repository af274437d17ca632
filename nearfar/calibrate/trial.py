"""One picture seen by everybody: the reference, near, near at smaller inputs, and far at every rung.

Each does what it does in production: near sees the picture, far sees what codec and rung left of it. They run one after
the other, so no duration has another run in it. Boxes are compared in one list of labels.
"""

from collections.abc import Callable, Sequence

from edge.config.scheduler_settings import rung_of
from nearfar.calibrate.common_labels import CommonLabels
from nearfar.calibrate.far_side import FarSide
from nearfar.calibrate.rows import FarSight, Row, Sight
from nearfar.calibrate.rung_words import rung_words
from pipelines.codecs.base import Codec
from pipelines.codecs.kinds import CODECS, RungConfig
from pipelines.detectors.base import Detector
from pipelines.errors import ConfigError, Rejected
from pipelines.frame import Picture
from pipelines.matching import counts
from pipelines.pictures import for_detector
from pipelines.result import Detections
from pipelines.runtime import monotonic_us


class Trial:
    """`reference` None: what far sees in the picture itself. `smaller`: near's detector at other inputs."""

    def __init__(
        self,
        *,
        far: FarSide,
        ladder: Sequence[RungConfig],
        labels: CommonLabels,
        near: Detector | None = None,
        smaller: Sequence[Detector] = (),
        reference: Callable[[Picture], Detections] | None = None,
    ) -> None:
        self._far = far
        self._labels = labels
        self._near = near
        self._smaller = tuple(smaller)
        self._reference = reference or far.best
        self._rungs: list[tuple[RungConfig, Codec]] = [
            (rung, CODECS[rung.codec].resolve().from_config(rung)) for rung in ladder
        ]

    def warm_up(self, picture: Picture) -> None:
        """Everybody once, unmeasured: the first run of a model allocates."""
        self.row(picture)

    def row(self, picture: Picture) -> Row:
        """Raises ConfigError for a rung that cannot carry the picture, NearfarError when a model fails."""
        reference = self._labels.apply(self._reference(picture))
        near, confidence = None, None
        if self._near is not None:
            near, seen = self._near_sight(self._near, picture, reference)
            confidence = round(float(min(seen.scores, default=0.0)), 4)
        return Row(
            reference=len(reference),
            near=near,
            smaller=tuple(self._near_sight(small, picture, reference)[0] for small in self._smaller),
            confidence=confidence,
            rungs=tuple(self._far_sight(rung, codec, picture, reference) for rung, codec in self._rungs),
        )

    def _near_sight(
        self, detector: Detector, picture: Picture, reference: Detections
    ) -> tuple[Sight, Detections]:
        begun_us = monotonic_us()
        found = detector.detect(for_detector(picture))
        run_us = monotonic_us() - begun_us
        seen = self._labels.apply(found)
        true, false = counts(seen, reference)
        return Sight(true=true, false=false, run_us=run_us), seen

    def _far_sight(self, rung: RungConfig, codec: Codec, picture: Picture, reference: Detections) -> FarSight:
        height_px, width_px = picture.shape[:2]
        size = rung_of(rung).size_px((width_px, height_px), self._far.input_size)
        try:
            begun_us = monotonic_us()
            payload, encoding = codec.encode(picture, quality=rung.wire_quality, size=size)
            encode_us = monotonic_us() - begun_us
            answer = self._far.answer(payload, encoding, size_px=(width_px, height_px))
        except Rejected as error:
            raise ConfigError(
                f"{rung_words(rung)} cannot carry the pictures of this clip: {error}"
            ) from error
        true, false = counts(self._labels.apply(answer.detections), reference)
        return FarSight(
            true=true, false=false, run_us=answer.run_us, size_bytes=len(payload), encode_us=encode_us
        )
