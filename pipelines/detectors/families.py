"""What family of detector an ONNX file belongs to, told from its inputs and outputs alone.

Every decoder asks here when a file is not its own, so that the refusal names what the file is and, where
this project reads it, the kind to write.
"""

from dataclasses import dataclass
from pathlib import Path

from pipelines.detectors.grids import cells_of
from pipelines.detectors.signature import Port, Signature
from pipelines.errors import ConfigError

_YOLOV5_ANCHORS = 3


@dataclass(frozen=True, slots=True)
class FamilyOfModel:
    """`kind` is the word for a configuration, empty when no kind reads such files."""

    words: str
    kind: str = ""


def family_of(signature: Signature, size: tuple[int, int] | None = None) -> FamilyOfModel | None:
    """The family of a file, None when nothing known. `size` (width_px, height_px): what its outputs were seen at."""
    names = set(signature.output_names)
    lower = {name.lower() for name in names}
    if {"cls_8", "obj_8", "bbox_8"} <= lower:
        return FamilyOfModel("a YuNet face detector", "yunet")
    if {"loc", "conf", "iou"} <= lower:
        return FamilyOfModel("a YuNet face detector of 2022, decoded otherwise: take one of 2023 or later")
    if {"537", "538", "539"} <= names:
        return FamilyOfModel("a CenterFace face detector", "centerface")
    if "pred_boxes" in lower or {"logits", "boxes"} <= lower:
        return FamilyOfModel("a DETR-type detector")
    if len(names) > 1 and {"boxes", "scores"} <= {
        name.split(":")[0].removeprefix("detection_") for name in lower
    }:
        return FamilyOfModel("a detector with suppression built in")
    if len(signature.inputs) == 1 and len(signature.outputs) == 1:
        return _of_one_output(signature.outputs[0], size or signature.declared_size)
    if signature.outputs and all(port.dims is not None and len(port.dims) == 2 for port in signature.outputs):
        return FamilyOfModel("a classifier: it gives scores of a whole picture, no boxes")
    return None


def _of_one_output(port: Port, size: tuple[int, int] | None) -> FamilyOfModel | None:
    dims = port.dims
    if dims is None:
        return None
    if len(dims) == 2:
        return FamilyOfModel("a classifier: it gives scores of a whole picture, no boxes")
    if len(dims) == 4:
        return FamilyOfModel("a detector or segmenter that gives one map per picture, as FastestDet does")
    if len(dims) != 3:
        return None
    cells = len(cells_of(size)) if size is not None else None
    rows, columns = dims[1], dims[2]
    if columns is not None and rows is not None and columns > rows:
        return FamilyOfModel("a YOLOv8-type detector (one column per place)")
    if rows is not None and cells is not None and rows == cells * _YOLOV5_ANCHORS:
        return FamilyOfModel("a YOLOv5-type detector (three anchors per place)")
    if columns is not None and columns > 5 and (rows is None or cells is None or rows == cells):
        return FamilyOfModel("a YOLOX-type detector", "yolox")
    return None


def wrong_family(
    path: Path,
    *,
    kind: str,
    expected: str,
    signature: Signature,
    size: tuple[int, int] | None = None,
) -> ConfigError:
    """The refusal of a sound file that `kind` cannot read: what it is, what it has, what was expected."""
    family = family_of(signature, size)
    if family is None:
        looks = ""
    elif family.kind == kind:
        looks = f": it looks like {family.words}, but with another input or other outputs"
    elif family.kind:
        looks = f": it looks like {family.words}; write kind: {family.kind}"
    else:
        looks = f": it looks like {family.words}; no kind of detector here reads such files"
    return ConfigError(
        f"{path} is no model for kind: {kind}{looks}\n    found:    {signature}\n    expected: {expected}"
    )
