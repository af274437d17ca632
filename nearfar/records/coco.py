"""Pictures and a COCO file with the answers as pre-labels, ready for any labelling tool.

    OUT_DIR/images/HASH.jpg     as they came; what no viewer opens (zstd) becomes PNG
    OUT_DIR/annotations.json    COCO: images, annotations in pixels of these pictures, categories

Each content appears once. File names come from the content, never from what a gateway called something. A picture
that is missing, damaged, or larger decoded than a worker's limits allow is told and left out.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.errors import ConfigError, Rejected

if TYPE_CHECKING:
    from cloud.store.payloads.folder import PayloadFolder
    from cloud.store.payloads.ref import PayloadRef
    from cloud.store.row import RecordRow

_AS_THEY_CAME = {"jpeg": "jpg", "png": "png"}


class CocoFolder:
    """`add` each record, then `finish`. ConfigError unless `root` is new or empty."""

    def __init__(self, root: Path, pictures: "PayloadFolder", *, left_out: Callable[[str], None]) -> None:
        """`left_out` is told in words about each picture that cannot be used."""
        if root.exists() and (not root.is_dir() or any(root.iterdir())):
            raise ConfigError(f"{root} is there already; name a new or an empty folder")
        try:
            (root / "images").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"cannot make {root}: {error.strerror}; choose another OUT_DIR") from error
        self._root = root
        self._pictures = pictures
        self._left_out = left_out
        self._seen: set[str] = set()
        self._images: list[dict[str, Any]] = []
        self._annotations: list[dict[str, Any]] = []
        self._categories: dict[str, int] = {}

    def __len__(self) -> int:
        """Pictures so far."""
        return len(self._images)

    def add(self, row: "RecordRow", why: tuple[str, ...]) -> bool:
        """False if it has no picture that can be used, or one that is there already."""
        ref = row.payload
        if ref is None or ref.sha256 in self._seen:
            return False
        try:
            data, ending = self._viewable(ref)
        except Rejected as error:
            self._left_out(f"{row.id}: {error}")
            return False
        self._seen.add(ref.sha256)
        name = f"{ref.sha256[:24]}.{ending}"
        (self._root / "images" / name).write_bytes(data)
        number = len(self._images) + 1
        self._images.append(
            {
                "id": number,
                "file_name": name,
                "width": ref.encoding.width_px,
                "height": ref.encoding.height_px,
                "nearfar": {
                    "agent": row.id.agent,
                    "run": row.id.run.hex(),
                    "stream": row.id.stream,
                    "seq": row.id.seq,
                    "captured_unix_ms": None if not row.captured_unix_us else row.captured_unix_us / 1000,
                    "answered_by": None if row.answered_by is None else row.answered_by.value,
                    "labels_by": None
                    if row.best is None
                    else "given"
                    if row.far_detections is None
                    else "far",
                    "why": list(why),
                },
            }
        )
        self._label(row, ref, number)
        return True

    def finish(self) -> None:
        """Write the annotations; without them the folder is of no use, so they come last and whole."""
        document = {
            "info": {"description": "hard examples, with the answers as pre-labels", "version": "1"},
            "licenses": [],
            "images": self._images,
            "annotations": self._annotations,
            "categories": [{"id": number, "name": name} for name, number in self._categories.items()],
        }
        begun = self._root / "annotations.json.begun"
        begun.write_text(json.dumps(document, ensure_ascii=False, indent=1), encoding="utf-8")
        begun.rename(self._root / "annotations.json")

    def _label(self, row: "RecordRow", ref: "PayloadRef", image: int) -> None:
        best = row.best
        if best is None:
            return
        for name in best.labels:
            self._categories.setdefault(name, len(self._categories) + 1)
        width_px, height_px = ref.encoding.width_px, ref.encoding.height_px
        fitted = best.scaled(width_px / ref.source_size[0], height_px / ref.source_size[1])
        for line, corners in zip(fitted.as_rows(), fitted.boxes.tolist(), strict=True):
            left, right = (min(max(0.0, x), float(width_px)) for x in (corners[0], corners[2]))
            top, bottom = (min(max(0.0, y), float(height_px)) for y in (corners[1], corners[3]))
            self._annotations.append(
                {
                    "id": len(self._annotations) + 1,
                    "image_id": image,
                    "category_id": self._categories.setdefault(str(line["label"]), len(self._categories) + 1),
                    "bbox": [round(v, 1) for v in (left, top, right - left, bottom - top)],
                    "area": round((right - left) * (bottom - top), 1),
                    "iscrowd": 0,
                    "score": line["score"],
                }
            )

    def _viewable(self, ref: "PayloadRef") -> tuple[bytes, str]:
        """The picture as a file people can open, and the ending of its name. Raises Rejected."""
        data = self._pictures.read(ref.sha256)
        ending = _AS_THEY_CAME.get(ref.encoding.codec)
        if ending is not None:
            return data, ending
        from cloud.limits import ServiceLimits  # noqa: PLC0415
        from pipelines.codecs.base import PictureLimits  # noqa: PLC0415 - OpenCV loads only where a picture is decoded
        from pipelines.codecs.kinds import CODECS  # noqa: PLC0415
        from pipelines.codecs.png import PngCodec  # noqa: PLC0415

        if ref.encoding.codec not in {kind.name for kind in CODECS}:
            raise Rejected(f"codec {ref.encoding.codec!r} is not one of this version")
        most = ServiceLimits()  # a file on a disk is trusted no more than what comes over a link
        limits = PictureLimits(pixels=most.pixels, decoded_bytes=most.decompressed_bytes)
        picture = CODECS[ref.encoding.codec].resolve()().decode(data, ref.encoding, limits)
        return PngCodec().encode(picture, quality=0)[0], "png"
