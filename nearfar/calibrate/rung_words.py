"""A rung in a few characters, for tables, plots and errors."""

from pipelines.codecs.kinds import RungConfig


def rung_words(rung: RungConfig) -> str:
    """`jpeg q50 ×0.75`: short, for people; without what a codec does not have."""
    detail = f"q{rung.quality}" if rung.quality is not None else f"level {rung.level}"
    return f"{rung.codec} {detail} ×{rung.scale:g}"
