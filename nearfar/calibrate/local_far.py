"""The worker's own model as the far side of a calibration, run here.

What a rung leaves of a picture is decoded by the worker's codec within the worker's limits, seen by its model and
scaled back to the picture, exactly as a worker does it; only the network is missing.
"""

from pathlib import Path

from cloud.config import ModelConfig, WorkerConfig, load_worker
from nearfar.calibrate.far_side import FarAnswer
from pipelines.codecs.base import Codec, PictureLimits
from pipelines.codecs.kinds import CODECS
from pipelines.detectors.base import Detector
from pipelines.detectors.kinds import DETECTORS
from pipelines.errors import ConfigError, Problem
from pipelines.frame import Encoding, Picture
from pipelines.pictures import for_detector
from pipelines.result import Detections
from pipelines.runtime import monotonic_us


class LocalFar:
    """`detector` in this process, decoding within `limits`."""

    def __init__(self, detector: Detector, *, model: str, limits: PictureLimits) -> None:
        self._detector = detector
        self._model = model
        self._limits = limits
        self._codecs: dict[str, Codec] = {}

    @property
    def name(self) -> str:
        return f"{self._model} ({self._detector.name})"

    @property
    def labels(self) -> tuple[str, ...]:
        return self._detector.labels

    @property
    def input_size(self) -> tuple[int, int]:
        return self._detector.input_size

    @property
    def sha256(self) -> str:
        return self._detector.sha256

    def best(self, picture: Picture) -> Detections:
        return self._detector.detect(for_detector(picture))

    def answer(self, payload: bytes, encoding: Encoding, *, size_px: tuple[int, int]) -> FarAnswer:
        codec = self._codecs.get(encoding.codec)
        if codec is None:
            codec = self._codecs[encoding.codec] = CODECS[encoding.codec].resolve()()
        begun_us = monotonic_us()
        found = self._detector.detect(for_detector(codec.decode(payload, encoding, self._limits)))
        run_us = monotonic_us() - begun_us
        x, y = size_px[0] / encoding.width_px, size_px[1] / encoding.height_px
        return FarAnswer(found.scaled(x, y), run_us)


def local_far(worker_file: Path, *, model: str) -> LocalFar:
    """The model called `model` (empty: the default one) of a worker's file.

    Raises ConfigError for a file that is none, a model it does not serve, or one that cannot be loaded.
    """
    config = load_worker(worker_file)
    name, chosen = _model(config, model, file=str(worker_file))
    limits = PictureLimits(pixels=config.limits.pixels, decoded_bytes=config.limits.decompressed)
    return LocalFar(DETECTORS.build(chosen.detector), model=name, limits=limits)


def _model(config: WorkerConfig, wanted: str, *, file: str) -> tuple[str, ModelConfig]:
    name = wanted or config.default_model
    if name not in config.models:
        raise ConfigError(
            Problem(
                "the pipeline asks for a model this worker does not serve (far.model)",
                path="models",
                file=file,
                found=name,
                allowed=", ".join(config.models),
            )
        )
    return name, config.models[name]
