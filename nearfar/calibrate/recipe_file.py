"""The pipeline's file as a calibration reads it, and as it looks with what was measured in it.

Only `near.accuracy` and the ladder's `accuracy` and `bytes` change, and one comment above the ladder says where they are
from; with a suggested ladder the whole ladder. The new text is validated before it is written, and a file that somebody
changed in the meantime is read anew.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path

from edge.config.pipeline import PipelineConfig
from nearfar.calibrate.figures import Calibration, RungFigures
from nearfar.calibrate.safe_write import may_replace, replace_content
from nearfar.calibrate.yaml_edit import EditError, Plain, Value, with_comment_above, with_values
from pipelines.blocks import Steps, missing_files
from pipelines.document import Document
from pipelines.errors import ConfigError, Problem

LADDER: Steps = ("scheduler", "ladder")
_MARK = "calibrated "
_OURS = ("scheduler.ladder", "near.accuracy", "near.smaller.accuracy")
"""What is written, and so cannot come from the command line."""


@dataclass(frozen=True, slots=True)
class RecipeFile:
    """`text` exactly as in the file; `config` after `overrides`."""

    path: Path
    text: str
    config: PipelineConfig
    overrides: tuple[str, ...]

    def with_findings(
        self, found: Calibration, ladder: Sequence[RungFigures], *, suggested: bool, day: str
    ) -> str:
        """The text with what was found; `ladder` in the order of the recipe's, or instead of it when `suggested`.

        Raises ConfigError, with the values to write by hand, when the file cannot be changed safely.
        """
        changes: dict[Steps, Value] = {}
        if found.near is not None:
            changes["near", "accuracy"] = round(found.near.accuracy, 3)
        near = self.config.near
        if near is not None and near.smaller is not None and found.smaller:
            changes["near", "smaller", "accuracy"] = round(found.smaller[0].accuracy, 3)
        if suggested or "ladder" not in self.config.scheduler.model_fields_set:
            changes[LADDER] = [_rung(figures) for figures in ladder]
        else:
            for number, figures in enumerate(ladder):
                changes[*LADDER, number, "accuracy"] = round(figures.accuracy, 3)
                changes[*LADDER, number, "bytes"] = _kb(figures.bytes_mean)
        try:
            text = with_values(self.text, changes)
        except EditError as error:
            values = "\n".join(f"    {'.'.join(map(str, path))}: {value}" for path, value in changes.items())
            raise ConfigError(
                f"{self.path} cannot be changed by a program: {error}. Write this by hand:\n{values}"
            ) from error
        text = with_comment_above(text, LADDER, _comment(found, ladder, day), mark=_MARK)
        _read(text, self.path, self.overrides)
        return text

    def diff(self, text: str) -> str:
        """Unified, empty when nothing changes."""
        lines = unified_diff(
            self.text.splitlines(keepends=True),
            text.splitlines(keepends=True),
            str(self.path),
            f"{self.path} (calibrated)",
        )
        return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)

    def as_it_is_now(self) -> "RecipeFile":
        """Read again. Raises ConfigError when what was measured is not in it any more."""
        now = read_recipe(self.path, self.overrides)
        mine, theirs = self.config, now.config
        same = now.text == self.text or (
            (mine.near and mine.near.detector),
            (mine.near and mine.near.smaller and mine.near.smaller.input),
            mine.far,
            mine.labels,
            mine.label_map,
            [_what(rung) for rung in mine.scheduler.ladder],
        ) == (
            (theirs.near and theirs.near.detector),
            (theirs.near and theirs.near.smaller and theirs.near.smaller.input),
            theirs.far,
            theirs.labels,
            theirs.label_map,
            [_what(rung) for rung in theirs.scheduler.ladder],
        )
        if not same:
            raise ConfigError(
                f"{self.path} was changed while it was calibrated, and is not what was measured any more: nothing is "
                "written; calibrate it again"
            )
        return now

    def write(self, text: str) -> None:
        """Raises ConfigError, and then the file is as it was."""
        try:
            replace_content(self.path, text.encode())
        except OSError as error:
            raise ConfigError(f"cannot write {self.path}: {error.strerror}; it is as it was") from error


def read_recipe(path: Path, overrides: Sequence[str] = ()) -> RecipeFile:
    """Raises ConfigError with every problem. Files of streams need not be here: a clip stands for them."""
    Document.read(path)
    text = path.read_bytes().decode("utf-8")
    return RecipeFile(path, text, _read(text, path, overrides), tuple(overrides))


def check_writable(recipe: RecipeFile) -> None:
    """Before hours of measuring rather than after. Raises ConfigError."""
    for override in recipe.overrides:
        dotted = override.partition("=")[0]
        if dotted in ("near", "scheduler") or dotted.startswith(_OURS):
            raise ConfigError(
                Problem(
                    "is what a calibration writes into the file: write it there first, or say --dry-run",
                    dotted,
                    f"--set {dotted}",
                )
            )
    if not may_replace(recipe.path):
        raise ConfigError(
            f"{recipe.path} could not be written: its folder may not be changed; --dry-run only shows what would be"
        )


def _read(text: str, path: Path, overrides: Sequence[str]) -> PipelineConfig:
    document = Document(text, file=str(path), directory=path.parent)
    document.override(overrides, PipelineConfig)
    config = document.validate(PipelineConfig)
    if config.near is not None:
        problems = [document.problem(("near", *steps), words) for steps, words in missing_files(config.near)]
        if problems:
            raise ConfigError(*problems)
    return config


def _what(rung: object) -> tuple[object, ...]:
    return tuple(getattr(rung, name) for name in ("codec", "quality", "level", "scale"))


def _rung(figures: RungFigures) -> dict[str, Plain]:
    rung = figures.rung
    detail: dict[str, Plain] = {}
    if rung.quality is not None:
        detail["quality"] = rung.quality
    if rung.level is not None:
        detail["level"] = rung.level
    return {
        "codec": rung.codec,
        **detail,
        "scale": rung.scale,
        "accuracy": round(figures.accuracy, 3),
        "bytes": _kb(figures.bytes_mean),
    }


def _kb(size_bytes: int) -> str:
    return f"{size_bytes / 1000:.1f}kB" if size_bytes >= 100 else f"{size_bytes}B"


def _comment(found: Calibration, ladder: Sequence[RungFigures], day: str) -> str:
    clips = ", ".join(" ".join(Path(clip).name.split()) for clip in found.clips)
    costs = [] if found.near is None else [f"near {_ms([found.near.run_p50_us])}"]
    costs.append(f"encode {_ms([figures.encode_p50_us for figures in ladder])}")
    costs.append(f"far {_ms([figures.run_p50_us for figures in ladder])}")
    return f"{_MARK}{day}: {clips}, {found.frames} pictures, against {found.far}; {', '.join(costs)}"


def _ms(times_us: Sequence[int]) -> str:
    low, high = f"{min(times_us) / 1000:.1f}", f"{max(times_us) / 1000:.1f}"
    return f"{low} ms" if low == high else f"{low} to {high} ms"
