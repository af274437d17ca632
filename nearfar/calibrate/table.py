"""What a calibration found, in plain text."""

from collections.abc import Sequence

from nearfar.calibrate.figures import Calibration, NearFigures, RungFigures
from nearfar.calibrate.rung_words import rung_words

TITLES = ("", "accuracy", "±", "kB/frame", "p95", "encode ms", "p95", "run ms", "p95")


def table(found: Calibration, ladder: Sequence[RungFigures]) -> str:
    """One row an answerer; `ladder`: the rungs to show."""
    rows: list[tuple[str, ...]] = [TITLES]
    if found.near is not None:
        rows += [_near_row("near", found.near), *(_near_row("near", small) for small in found.smaller)]
    rows += [_rung_row(figures) for figures in ladder]
    widths = [max(len(row[i]) for row in rows) for i in range(len(TITLES))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def headline(found: Calibration) -> str:
    return (
        f"{', '.join(found.clips)}: {found.frames} pictures; the reference is what {found.far} sees in them, nothing "
        f"encoded: {found.boxes} boxes"
    )


def _near_row(who: str, near: NearFigures) -> tuple[str, ...]:
    return (
        f"{who} {near.name}",
        f"{near.accuracy:.3f}",
        f"{near.ci95:.3f}",
        "–",
        "–",
        "–",
        "–",
        _ms(near.run_p50_us),
        _ms(near.run_p95_us),
    )


def _rung_row(figures: RungFigures) -> tuple[str, ...]:
    return (
        f"far {rung_words(figures.rung)}",
        f"{figures.accuracy:.3f}",
        f"{figures.ci95:.3f}",
        f"{figures.bytes_mean / 1000:.1f}",
        f"{figures.bytes_p95 / 1000:.1f}",
        _ms(figures.encode_p50_us),
        _ms(figures.encode_p95_us),
        _ms(figures.run_p50_us),
        _ms(figures.run_p95_us),
    )


def _ms(value_us: int) -> str:
    return f"{value_us / 1000:.1f}"
