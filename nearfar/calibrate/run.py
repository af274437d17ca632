"""A calibration from recipe and clips to figures; nothing is written here."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from pydantic import ValidationError

from edge.config.pipeline import PipelineConfig
from edge.config.scheduler_settings import rung_of
from nearfar.calibrate.clips import Clips
from nearfar.calibrate.common_labels import CommonLabels
from nearfar.calibrate.far_side import FarSide
from nearfar.calibrate.figures import Calibration, RungFigures, figures, remarks
from nearfar.calibrate.grid import candidates, suggest
from nearfar.calibrate.rows import Row, as_file
from nearfar.calibrate.trial import Trial
from nearfar.simulation.accuracies import AccuraciesFile
from pipelines.codecs.base import shape_of
from pipelines.codecs.kinds import RungConfig
from pipelines.detectors.base import Detector
from pipelines.detectors.kinds import DETECTORS
from pipelines.errors import ConfigError
from pipelines.units import format_extent

Told = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """`found` holds every rung that was tried, `ladder` those for the recipe."""

    found: Calibration
    ladder: tuple[RungFigures, ...]
    rows: tuple[Row, ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON; `in_ladder` of a rung: whether it is one of those for the recipe."""
        plain = self.found.as_dict()
        for rung, tried in zip(plain["rungs"], self.found.rungs, strict=True):
            rung["in_ladder"] = tried in self.ladder
        return plain

    def as_file(self) -> AccuraciesFile:
        """For `nearfar simulate --accuracies`, with the rungs of the ladder. Raises ConfigError without near."""
        tried = [figures.rung for figures in self.found.rungs]
        places = [tried.index(figures.rung) for figures in self.ladder]
        rows = [
            row.model_copy(update={"rungs": tuple(row.rungs[place] for place in places)}) for row in self.rows
        ]
        if self.found.near is None:
            raise ConfigError(
                "a file of accuracies needs a `near` detector in the pipeline: add one, or leave --accuracies out"
            )
        made_from = f"{', '.join(self.found.clips)}: near {self.found.near.name}, far {self.found.far}"
        return as_file(rows, [rung_of(figures.rung) for figures in self.ladder], made_from=made_from)


def calibrate(
    config: PipelineConfig,
    *,
    far: FarSide,
    clips: Clips,
    near_inputs: Sequence[tuple[int, int]] = (),
    suggested: bool = False,
    told: Told = lambda _: None,
) -> Outcome:
    """`near_inputs`: smaller inputs of near, each (width_px, height_px). `told` is called with the pictures done, 0
    when the first begins.

    Raises ConfigError where nothing can be compared, NearfarError when a model fails.
    """
    near, smaller = _near(config, near_inputs)
    labels = CommonLabels(
        config.labels, config.label_map, near=None if near is None else near.labels, far=far.labels
    )
    pictures = clips.pictures()
    first = next(pictures, None)
    if first is None:
        raise ConfigError("the clips hold no picture; give another --clip")
    ladder = tuple(config.scheduler.ladder)
    if suggested:
        own = ladder if "ladder" in config.scheduler.model_fields_set else ()
        ladder = _once((*own, *candidates(shape_of(first), far.input_size)))
    trial = Trial(far=far, ladder=ladder, labels=labels, near=near, smaller=smaller)
    trial.warm_up(first)
    rows: list[Row] = []
    told(0)
    for picture in chain([first], pictures):
        rows.append(trial.row(picture))
        told(len(rows))
    found = figures(
        rows,
        ladder=ladder,
        clips=[str(clip.path) for clip in clips.clips],
        far=far.name,
        near=None if near is None else near.name,
        smaller=[small.name for small in smaller],
    )
    chosen = found.rungs
    if suggested:
        chosen = suggest(found.rungs, near_accuracy=0.0 if found.near is None else found.near.accuracy)
    notes = (*labels.notes, *_same_model(near, far), *remarks(found, chosen))
    return Outcome(replace(found, notes=notes), chosen, tuple(rows))


def _near(
    config: PipelineConfig, inputs: Sequence[tuple[int, int]]
) -> tuple[Detector | None, list[Detector]]:
    """Near and its smaller inputs: the recipe's first, whose accuracy is written, then those asked for."""
    if config.near is None:
        if inputs:
            raise ConfigError(
                "--near-input needs a `near` detector in the pipeline: add one, or leave --near-input out"
            )
        return None, []
    own = [] if config.near.smaller is None else [config.near.smaller.input]
    smaller: list[Detector] = []
    for size in dict.fromkeys([*own, *inputs]):
        chosen = config.near.detector
        if size[0] * size[1] >= chosen.input[0] * chosen.input[1]:
            raise ConfigError(
                f"--near-input {format_extent(size)} is not smaller than near's {format_extent(chosen.input)}; to try a "
                f"larger near: --dry-run --set near.detector.input={format_extent(size)}"
            )
        values = {**chosen.model_dump(exclude_unset=True), "input": format_extent(size)}
        try:
            smaller.append(DETECTORS.build(type(chosen).model_validate(values)))
        except ValidationError as error:
            raise ConfigError(f"--near-input {format_extent(size)}: {error.errors()[0]['msg']}") from error
    near: Detector = DETECTORS.build(config.near.detector)
    return near, smaller


def _same_model(near: Detector | None, far: FarSide) -> list[str]:
    if near is None or near.sha256 != far.sha256:
        return []
    (near_w, near_h), (far_w, far_h) = near.input_size, far.input_size
    if near_w * near_h < far_w * far_h:
        return []
    words = (
        f"near runs far's own model at {format_extent(near.input_size)}, far at {format_extent(far.input_size)}: far is "
        "not the better one here, and figures against it say nothing; serve a larger input or a better model"
    )
    return [words]


def _once(ladder: Sequence[RungConfig]) -> tuple[RungConfig, ...]:
    """Each way of encoding once, the first of it."""
    kept = {(rung.codec, rung.quality, rung.level, rung.scale): rung for rung in reversed(ladder)}
    return tuple(reversed(kept.values()))
