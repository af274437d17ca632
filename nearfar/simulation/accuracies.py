"""What each answerer would have said of each frame, scored against a reference: F1 at IoU 0.5 over a clip.

    F1 = Σ 2·TP / Σ (2·TP + FP + FN), over all frames together; no answer in time = nothing seen: FN only

Kept as columns per answerer (`Scores`): `hits` = 2·TP and `weight` = 2·TP + FP + FN of each frame. Constants of a
recipe are the same with hits = 2·accuracy and weight 2, missed 0 of 2: then F1 is the mean accuracy.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from edge.scheduling.rung import Rung
from nearfar.simulation.text_file import read_text
from pipelines.errors import DataFileError, Problem

FORMAT = "nearfar accuracies 1"
SIZE_SPREAD = 0.2


@dataclass(frozen=True, slots=True)
class Scores:
    """One answerer over the frames of a clip."""

    hits: tuple[float, ...]
    weight: tuple[float, ...]

    @property
    def f1(self) -> float:
        total = sum(self.weight)
        return sum(self.hits) / total if total else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracies:
    """`size_bytes[rung][frame]`, `encode_us[rung]` samples. `confidence` of near per frame, None = not known.
    `near_us`, `worker_us`: measured durations, empty = not known."""

    near: Scores
    missed: Scores
    ladder: tuple[Rung, ...]
    rungs: tuple[Scores, ...]
    size_bytes: tuple[tuple[int, ...], ...]
    encode_us: tuple[tuple[int, ...], ...]
    small_near: Scores | None = None
    confidence: tuple[float, ...] | None = None
    near_us: tuple[int, ...] = ()
    small_near_us: tuple[int, ...] = ()
    worker_us: tuple[int, ...] = ()

    @property
    def frames(self) -> int:
        return len(self.missed.hits)


Count = Annotated[int, Field(ge=0, le=1_000_000_000)]
Micros = Annotated[int, Field(ge=0, le=3_600_000_000)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Seen(_Strict):
    """True and false positives of one answerer, frame by frame; `run_us`: how long its runs took."""

    true: tuple[Count, ...]
    false: tuple[Count, ...]
    run_us: tuple[Micros, ...] = ()


class SeenAtRung(Seen):
    codec: str = "jpeg"
    quality: int = Field(ge=0, le=100, description="0: the codec has none")
    scale: float = Field(gt=0, le=1)
    size_bytes: tuple[Count, ...]
    encode_us: tuple[Micros, ...]


class AccuraciesFile(_Strict):
    """The file `--accuracies` names. `reference`: boxes of the reference in each frame."""

    format: str = FORMAT
    made_from: str = ""
    reference: tuple[Count, ...] = Field(min_length=1)
    near: Seen
    small_near: Seen | None = None
    confidence: tuple[Annotated[float, Field(ge=0, le=1)], ...] | None = None
    rungs: tuple[SeenAtRung, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _one_value_a_frame(self) -> "AccuraciesFile":
        if self.format != FORMAT:
            raise ValueError(f"format is {self.format!r}, not {FORMAT!r}")
        frames = len(self.reference)
        columns: list[tuple[str, Sequence[float]]] = []
        answerers: list[tuple[str, Seen]] = [("near", self.near)]
        if self.small_near is not None:
            answerers.append(("small_near", self.small_near))
        for i, rung in enumerate(self.rungs):
            answerers.append((f"rungs.{i}", rung))
            columns.append((f"rungs.{i}.size_bytes", rung.size_bytes))
        for name, seen in answerers:
            columns += [(f"{name}.true", seen.true), (f"{name}.false", seen.false)]
            if any(true > there for true, there in zip(seen.true, self.reference, strict=False)):
                raise ValueError(f"{name}.true has more hits than the reference has boxes")
        if self.confidence is not None:
            columns.append(("confidence", self.confidence))
        for name, column in columns:
            if len(column) != frames:
                raise ValueError(f"{name} has {len(column)} values, the reference {frames} frames")
        return self


def read_accuracies(path: Path) -> Accuracies:
    """Raises DataFileError with what is wrong in the file."""
    text = read_text(path, what="file of accuracies")
    try:
        return scored(AccuraciesFile.model_validate_json(text))
    except ValidationError as error:
        problems = [
            Problem(fault["msg"], ".".join(str(part) for part in fault["loc"]), str(path))
            for fault in error.errors()
        ]
        raise DataFileError(*problems) from error


def write_accuracies(file: AccuraciesFile, path: Path) -> None:
    path.write_text(json.dumps(file.model_dump(mode="json"), separators=(",", ":")) + "\n", encoding="utf-8")


def scored(file: AccuraciesFile) -> Accuracies:
    """The counts of the file as scores; a rung's accuracy is its F1 relative to nothing but the reference."""
    rungs = tuple(scores(rung, file.reference) for rung in file.rungs)
    ladder = tuple(
        Rung(codec=seen.codec, quality=seen.quality, scale=seen.scale, accuracy=round(of.f1, 4))
        for seen, of in zip(file.rungs, rungs, strict=True)
    )
    return Accuracies(
        near=scores(file.near, file.reference),
        missed=Scores((0.0,) * len(file.reference), tuple(float(n) for n in file.reference)),
        ladder=ladder,
        rungs=rungs,
        size_bytes=tuple(rung.size_bytes for rung in file.rungs),
        encode_us=tuple(rung.encode_us or (3_000,) for rung in file.rungs),
        small_near=None if file.small_near is None else scores(file.small_near, file.reference),
        confidence=file.confidence,
        near_us=file.near.run_us,
        small_near_us=() if file.small_near is None else file.small_near.run_us,
        worker_us=tuple(us for rung in file.rungs for us in rung.run_us),
    )


def constant_accuracies(
    ladder: Sequence[Rung], *, near: float, pixels: int, encode_us: int = 3_000, frames: int = 97
) -> Accuracies:
    """From the constants of a recipe; payloads vary ± 20 % around what a rung is expected to weigh."""
    factors = [1 - SIZE_SPREAD + 2 * SIZE_SPREAD * (i * 41 % frames) / (frames - 1) for i in range(frames)]
    weight = (2.0,) * frames
    return Accuracies(
        near=Scores((2 * near,) * frames, weight),
        missed=Scores((0.0,) * frames, weight),
        ladder=tuple(ladder),
        rungs=tuple(Scores((2 * rung.accuracy,) * frames, weight) for rung in ladder),
        size_bytes=tuple(
            tuple(int(rung.prior_bytes(pixels) * factor) for factor in factors) for rung in ladder
        ),
        encode_us=tuple((int(encode_us * (0.3 + 0.7 * rung.scale**2)),) for rung in ladder),
    )


def scores(seen: Seen, reference: Sequence[int]) -> Scores:
    """One answerer against `reference` boxes in each frame."""
    hits = tuple(2.0 * true for true in seen.true)
    # 2·TP + FP + FN, with FN = reference − TP
    weight = tuple(
        float(true + false + there)
        for true, false, there in zip(seen.true, seen.false, reference, strict=True)
    )
    return Scores(hits, weight)
