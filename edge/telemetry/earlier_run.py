"""What an earlier run left in a run directory: moved aside whole, never written on and never deleted."""

from pathlib import Path

from pipelines.errors import ConfigError

_FILES = ("frames.jsonl", "link.jsonl", "summary.json", "report.html", "worst")


def set_earlier_run_aside(path: Path) -> None:
    """Move the files of an earlier run to `earlier-N`, so that lines and summary are of one run. ConfigError."""
    files = [path / name for name in _FILES if (path / name).exists()]
    if not files:
        return
    number = 1 + sum(1 for _ in path.glob("earlier-*"))
    aside = path / f"earlier-{number}"
    try:
        aside.mkdir()
        for file in files:
            file.rename(aside / file.name)
    except OSError as error:
        raise ConfigError(
            f"{path} holds an earlier run that cannot be moved to {aside.name}: {error.strerror}; "
            "choose another directory with --run-dir"
        ) from error
