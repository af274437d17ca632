"""What a calibration found: accuracy, bytes and time of near and of every rung, and what a person should know of it.

accuracy = F1 at IoU 0.5 over all boxes of all pictures, against the best far result (`nearfar.simulation.accuracies`)
± = 1.96 standard errors of that ratio over the pictures, as if they were independent:
    F1 = Σh/Σw, variance ≈ n/(n−1) · Σ(h − F1·w)² / (Σw)²      (Cochran, Sampling Techniques, 6.3)
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from nearfar.calibrate.rows import FarSight, Row, Sight
from nearfar.calibrate.rung_words import rung_words
from nearfar.simulation.accuracies import Scores, Seen, scores
from pipelines.codecs.kinds import RungConfig
from pipelines.errors import ConfigError
from pipelines.windows import quantile

FEW_BOXES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class NearFigures:
    """`name` of the detector; times of one run."""

    name: str
    accuracy: float
    ci95: float
    run_p50_us: int
    run_p95_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RungFigures:
    """`run` at the worker: decoding and detection, no network, no queue."""

    rung: RungConfig
    accuracy: float
    ci95: float
    bytes_mean: int
    bytes_p95: int
    encode_p50_us: int
    encode_p95_us: int
    run_p50_us: int
    run_p95_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """`boxes` the reference has in `frames` pictures of `clips`; `smaller` as many as there are smaller inputs."""

    clips: tuple[str, ...]
    frames: int
    boxes: int
    far: str
    near: NearFigures | None
    smaller: tuple[NearFigures, ...]
    rungs: tuple[RungFigures, ...]
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        plain = asdict(self)
        for rung, figures in zip(plain["rungs"], self.rungs, strict=True):
            rung["rung"] = {
                key: value
                for key, value in figures.rung.model_dump().items()
                if value is not None and key in ("codec", "quality", "level", "scale")
            }
        return plain


def figures(
    rows: Sequence[Row],
    *,
    ladder: Sequence[RungConfig],
    clips: Sequence[str],
    far: str,
    near: str | None,
    smaller: Sequence[str] = (),
) -> Calibration:
    """Raises ConfigError where nothing can be learnt: the reference saw nothing in any picture."""
    boxes = sum(row.reference for row in rows)
    if not boxes:
        raise ConfigError(
            f"far sees nothing in {len(rows)} pictures of {', '.join(clips)}: nothing can be compared; take a clip "
            "that shows what you look for, at the time of day it is looked for"
        )
    reference = [row.reference for row in rows]

    def near_figures(name: str, of: Callable[[Row], Sight | None]) -> NearFigures:
        sights = [sight for row in rows if (sight := of(row)) is not None]
        accuracy, ci95 = _accuracy(sights, reference)
        times_us = sorted(sight.run_us for sight in sights)
        return NearFigures(
            name=name,
            accuracy=accuracy,
            ci95=ci95,
            run_p50_us=int(quantile(times_us, 0.5)),
            run_p95_us=int(quantile(times_us, 0.95)),
        )

    return Calibration(
        clips=tuple(clips),
        frames=len(rows),
        boxes=boxes,
        far=far,
        near=None if near is None else near_figures(near, lambda row: row.near),
        smaller=tuple(
            near_figures(name, lambda row, at=at: row.smaller[at])  # type: ignore[misc]
            for at, name in enumerate(smaller)
        ),
        rungs=tuple(
            _rung_figures(rung, [row.rungs[at] for row in rows], reference) for at, rung in enumerate(ladder)
        ),
    )


def remarks(found: Calibration, rungs: Sequence[RungFigures]) -> list[str]:
    """What a person should know of the figures; `rungs` are those the recipe will have."""
    said = []
    if found.boxes < FEW_BOXES:
        said.append(
            f"only {found.boxes} boxes in {found.frames} pictures: take more pictures (--frames, --every), or more clips"
        )
    near = found.near
    best = max(rungs, key=lambda rung: rung.accuracy)
    if near is not None:
        if near.accuracy >= best.accuracy:
            said.append(
                f"near ({near.accuracy:.3f}) is as good as far at every rung (best {best.accuracy:.3f}), so no frame is "
                "worth sending: serve a better far model or a larger far input, or use policy: near_only"
            )
        else:
            worse = [rung for rung in rungs if rung.accuracy <= near.accuracy]
            said += [
                f"{rung_words(rung.rung)} ({rung.accuracy:.3f}) is not above near ({near.accuracy:.3f}): such a frame is not "
                "worth sending; leave the rung out"
                for rung in worse
            ]
        said += [
            f"{small.name} ({small.accuracy:.3f}) sees no less than near ({near.accuracy:.3f}), for less time: use it"
            for small in found.smaller
            if small.accuracy >= near.accuracy
        ]
    return said


def _accuracy(sights: Sequence[Sight], reference: Sequence[int]) -> tuple[float, float]:
    seen = Seen(true=tuple(s.true for s in sights), false=tuple(s.false for s in sights))
    made = scores(seen, reference)
    return round(made.f1, 4), round(_ci95(made), 4)


def _ci95(made: Scores) -> float:
    count, total = len(made.hits), sum(made.weight)
    if count < 2 or not total:
        return 1.0
    off = sum((hit - made.f1 * weight) ** 2 for hit, weight in zip(made.hits, made.weight, strict=True))
    return float(1.96 * (count / (count - 1) * off) ** 0.5 / total)


def _rung_figures(rung: RungConfig, sights: Sequence[FarSight], reference: Sequence[int]) -> RungFigures:
    accuracy, ci95 = _accuracy(sights, reference)
    sizes = sorted(sight.size_bytes for sight in sights)
    encode_us = sorted(sight.encode_us for sight in sights)
    run_us = sorted(sight.run_us for sight in sights)
    return RungFigures(
        rung=rung,
        accuracy=accuracy,
        ci95=ci95,
        bytes_mean=round(sum(sizes) / len(sizes)),
        bytes_p95=int(quantile(sizes, 0.95)),
        encode_p50_us=int(quantile(encode_us, 0.5)),
        encode_p95_us=int(quantile(encode_us, 0.95)),
        run_p50_us=int(quantile(run_us, 0.5)),
        run_p95_us=int(quantile(run_us, 0.95)),
    )
