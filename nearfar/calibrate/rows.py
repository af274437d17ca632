"""What every answerer saw of a clip: one row a picture, and the columns `nearfar simulate` reads made of them.

A row holds no boxes, only how many of the reference's each answerer found: F1 of any set of pictures follows.
"""

from collections.abc import Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from edge.scheduling.rung import Rung
from nearfar.simulation.accuracies import AccuraciesFile, Seen, SeenAtRung

_DISTURBED = 5
"""Medians beyond which the machine did something else."""

Count = Annotated[int, Field(ge=0)]


class Sight(BaseModel):
    """Boxes of one answerer that are the reference's, and those that are none; `run_us` from picture to boxes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    true: Count
    false: Count
    run_us: Count


class FarSight(Sight):
    """`run_us` at the worker, decoding included."""

    size_bytes: Count
    encode_us: Count


class Row(BaseModel):
    """One picture. `reference`: boxes in it; `smaller`: near at each smaller input; `confidence`: of near's least sure
    box, 0 when it saw nothing, None without near."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    reference: Count
    near: Sight | None = None
    smaller: tuple[Sight, ...] = ()
    confidence: float | None = None
    rungs: tuple[FarSight, ...] = ()


def undisturbed(samples_us: Sequence[int]) -> list[int]:
    """Without those during which the machine did something else."""
    most_us = _DISTURBED * sorted(samples_us)[len(samples_us) // 2]
    return [us for us in samples_us if us <= most_us]


def as_file(rows: Sequence[Row], ladder: Sequence[Rung], *, made_from: str) -> AccuraciesFile:
    """The columns of at least one row, with the first of the smaller inputs. Raises ValueError without near: a
    simulation falls back on it."""
    near = [row.near for row in rows if row.near is not None]
    if len(near) < len(rows):
        raise ValueError("rows without near")
    small = [row.smaller[0] for row in rows if row.smaller]
    return AccuraciesFile(
        made_from=made_from,
        reference=tuple(row.reference for row in rows),
        near=_seen(near),
        small_near=_seen(small) if small else None,
        confidence=tuple(row.confidence or 0.0 for row in rows),
        rungs=tuple(_at_rung(rung, [row.rungs[at] for row in rows]) for at, rung in enumerate(ladder)),
    )


def _seen(sights: Sequence[Sight]) -> Seen:
    return Seen(
        true=tuple(sight.true for sight in sights),
        false=tuple(sight.false for sight in sights),
        run_us=tuple(undisturbed([sight.run_us for sight in sights])),
    )


def _at_rung(rung: Rung, sights: Sequence[FarSight]) -> SeenAtRung:
    seen = _seen(sights)
    return SeenAtRung(
        true=seen.true,
        false=seen.false,
        run_us=seen.run_us,
        codec=rung.codec,
        quality=rung.quality,
        scale=rung.scale,
        size_bytes=tuple(sight.size_bytes for sight in sights),
        encode_us=tuple(undisturbed([sight.encode_us for sight in sights])),
    )
