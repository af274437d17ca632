"""What every detector with an ONNX model shares: fit the picture, run, read the outputs, suppress, place.

A family adds how its outputs are read. A file is run once when it is loaded, so a model of another family,
or one frozen at another size, is refused at the start and never in the middle of a stream.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import cv2
import numpy as np

from pipelines.detectors.base import CancelToken
from pipelines.detectors.boxes import Candidates, Fit, Fitted, Shrink, fit_picture, place
from pipelines.detectors.families import wrong_family
from pipelines.detectors.onnx import OnnxModel, Tensor
from pipelines.errors import ConfigError, Fatal
from pipelines.frame import Picture
from pipelines.result import Detections

_MULTIPLE_PX = 32
_PICTURE_RANK = 4
_CHANNELS = 3


class OnnxDetector(ABC):
    """Boxes of at least `min_score`; of overlapping ones (intersection over union above `iou`) the best.

    At most `max_detections` are given, the best ones. Raises ConfigError for a file of another family and for
    an `input_size` (width_px, height_px) that is no multiple of 32 or that the file does not run at.
    """

    kind: ClassVar[str]
    expected: ClassVar[str]
    """Inputs and outputs of the family, for people."""
    swap_rb: ClassVar[bool] = False
    """True: the model takes RGB."""
    shrink: ClassVar[Shrink] = "area"
    usual_score: ClassVar[float] = 0.5
    """The least score unless another is asked for."""

    def __init__(
        self,
        *,
        model: Path,
        input_size: tuple[int, int],
        sha256: str | None = None,
        min_score: float | None = None,
        iou: float = 0.3,
        max_detections: int = 300,
        threads: int = 1,
        fit: Fit = "stretch",
    ) -> None:
        width, height = input_size
        if width <= 0 or height <= 0 or width % _MULTIPLE_PX or height % _MULTIPLE_PX:
            raise ConfigError(f"{self.kind}: input {width}x{height}: both sides must be multiples of 32")
        self._input_size = input_size
        self._min_score = self.usual_score if min_score is None else min_score
        self._iou = iou
        self._max_detections = max_detections
        self._fit: Fit = fit
        self._model = OnnxModel(model, sha256=sha256, threads=threads)
        if not self._takes_a_picture() or (needed := self._needed_outputs()) is None:
            raise wrong_family(model, kind=self.kind, expected=self.expected, signature=self._model.signature)
        self._outputs = needed
        seen = self._model.try_out(input_size, needed)
        if not self._reads({name: value.shape for name, value in seen.items()}):
            shapes = self._model.signature.seen({name: value.shape for name, value in seen.items()})
            raise wrong_family(
                model, kind=self.kind, expected=self.expected, signature=shapes, size=input_size
            )
        self._labels = self._settle([seen[name] for name in needed])

    @classmethod
    def from_config(cls, config: Any) -> Self:
        return cls(
            model=config.model,
            input_size=config.input,
            sha256=config.sha256,
            min_score=config.min_score,
            iou=config.iou,
            max_detections=config.max_detections,
            threads=config.threads,
            fit=config.fit,
        )

    # -- what a family adds -------------------------------------------------------------------------------

    @abstractmethod
    def _needed_outputs(self) -> Sequence[str] | None:
        """The outputs to ask for, in the order `_decode` takes them; None: the file is of another family."""

    @abstractmethod
    def _reads(self, shapes: dict[str, tuple[int, ...]]) -> bool:
        """Whether outputs of these shapes are of this family at this input size."""

    @abstractmethod
    def _settle(self, seen: list[Tensor], /) -> tuple[str, ...]:
        """The labels, after whatever else is learnt from a first run. Raises ConfigError."""

    @abstractmethod
    def _decode(self, outputs: list[Tensor]) -> Candidates:
        """Every box of at least the least score, in input pixels."""

    # -- what they share ----------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        return f"{self.kind}@{self._input_size[0]}x{self._input_size[1]}"

    @property
    def labels(self) -> tuple[str, ...]:
        return self._labels

    @property
    def input_size(self) -> tuple[int, int]:
        return self._input_size

    @property
    def sha256(self) -> str:
        return self._model.sha256

    def detect(self, picture: Picture, cancel: CancelToken | None = None) -> Detections:
        """Boxes in pixels of `picture`, best score first. Raises as `Detector.detect` says."""
        fitted = self._fitted(picture)
        pixels = np.asarray(cv2.dnn.blobFromImage(fitted.picture, swapRB=self.swap_rb), np.float32)
        return self.placed(self._model.run({self._model.inputs[0]: pixels}, self._outputs, cancel), fitted)

    @property
    def max_batch(self) -> int:
        """Pictures of one run; 1 where the file fixes its first dimension."""
        return self._model.max_batch

    @property
    def batch_limit(self) -> str:
        """Why there are no more, in words that name the dimension."""
        return self._model.batch_limit

    def detect_batch(self, pictures: Sequence[Picture]) -> list[Detections]:
        """What `detect` gives for each of `pictures`, 1 to `max_batch`, of any sizes: all are brought to one input.

        Raises Rejected if one is no picture, Fatal when the engine broke or the model mixes up its rows.
        """
        fitted = [self._fitted(picture) for picture in pictures]
        blob = cv2.dnn.blobFromImages([each.picture for each in fitted], swapRB=self.swap_rb)
        outputs = self._model.run({self._model.inputs[0]: np.asarray(blob, np.float32)}, self._outputs)
        if any(len(output) != len(fitted) for output in outputs):
            shapes = ", ".join(str(list(output.shape)) for output in outputs)
            raise Fatal(f"{len(fitted)} pictures at once gave {shapes}: its batch is fixed inside the model")
        return [self.placed([output[i : i + 1] for output in outputs], each) for i, each in enumerate(fitted)]

    def _fitted(self, picture: Picture) -> Fitted:
        return fit_picture(picture, self._input_size, self._fit, shrink=self.shrink)

    def placed(self, outputs: list[Tensor], fitted: Fitted) -> Detections:
        """What the model's `outputs` say of the one picture that was `fitted`, in its own pixels."""
        found = self._decode(outputs)
        return place(found, fitted, self._labels, iou=self._iou, max_detections=self._max_detections)

    def _takes_a_picture(self) -> bool:
        inputs = self._model.signature.inputs
        if len(inputs) != 1:
            return False
        dims = inputs[0].dims
        return dims is None or (len(dims) == _PICTURE_RANK and dims[1] in (None, _CHANNELS))
