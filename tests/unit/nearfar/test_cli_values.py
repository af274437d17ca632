"""Numbers of a command line that no clock, file or database can hold are refused in words, before anything is opened."""

from pathlib import Path

import pytest

from nearfar.cli import main as command_line

STORE = ("records", "--store", "sqlite:////nowhere/records.db")
SIMULATE = ("simulate", "recipe.yaml", "--trace", "link.trace")
RELAY = ("relay", "--listen", "127.0.0.1:0", "--to", "127.0.0.1:1")
LONG = "99999999999999d"
DIGITS = "9" * 5000


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((*STORE, "--since", LONG), "at most 3650d"),
        ((*STORE, "--since", f"{DIGITS}d"), "at most 3650d"),
        ((*STORE, "--until", LONG), "at most 3650d"),
        ((*STORE, "--since", "99999-01-01"), "must be a moment"),
        ((*STORE, "--score-above", "nan"), "not a number"),
        ((*STORE, "--score-below", "inf"), "not in the range"),
        ((*STORE, "--unsure-below", "nan"), "not a number"),
        ((*STORE, "--limit", DIGITS[:30]), "not in the range"),
        ((*STORE, "--run", "zz"), "zz is not how a run begins"),
        ((*STORE, "--run", "%"), "is not how a run begins"),
        ((*STORE, "--run", "0" * 33), "is not how a run begins"),
        (("outbox", "ls", "state", "--since", LONG), "at most 3650d"),
        (("outbox", "export", "state", "--before", LONG), "at most 3650d"),
        (("outbox", "purge", "state", "--before", LONG), "at most 3650d"),
        (("outbox", "ls", "state", "--limit", DIGITS[:30]), "not in the range"),
        (("outbox", "drain", "state", "--link", "zmq://a:1", "--patience", LONG), "at most 3650d"),
        ((*SIMULATE, "--rtt", LONG), "at most 3650d"),
        ((*SIMULATE, "--jitter", LONG), "at most 3650d"),
        ((*SIMULATE, "--near-time", LONG), "at most 3650d"),
        ((*SIMULATE, "--worker-time", f"{DIGITS}ms"), "at most 3650d"),
        ((*SIMULATE, "--fps", "nan"), "not a number"),
        ((*SIMULATE, "--loss", "nan"), "not a number"),
        ((*SIMULATE, "--seed", DIGITS[:30]), "not in the range"),
        ((*RELAY, "--rtt-ms", "nan"), "not a number"),
        ((*RELAY, "--rate-mbit", "nan"), "not a number"),
        (("edge", "recipe.yaml", "--frames", DIGITS[:30]), "not in the range"),
        (("calibrate", "recipe.yaml", "--every", DIGITS[:30]), "not in the range"),
    ],
)
def test_a_number_beyond_what_can_be_meant_is_refused(
    arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line.run(list(arguments)) == 2
    err = capsys.readouterr().err
    assert words in err
    assert "Traceback" not in err


RECIPE = Path(__file__).parents[3] / "pipelines" / "recipes" / "synthetic.yaml"


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("deadline=99999999999999d", "at most 3650d"),
        ("outbox.max_bytes=99999999999999TB", "at most 1048576TiB"),
        (f"outbox.max_bytes={DIGITS}B", "at most 1048576TiB"),
        ("near.accuracy=.nan", "near.accuracy"),
        ("scheduler.byte_price=.inf", "finite"),
    ],
)
def test_an_override_beyond_what_can_be_meant_is_refused(
    override: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line.run(["check", str(RECIPE), "--set", override]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("more", [("--format", "csv"), ("--format", "jsonl"), ("--json",)])
def test_pictures_to_label_and_rows_in_a_format_are_not_asked_for_together(
    more: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line.run([*STORE, "--hard", str(tmp_path / "out"), *more]) == 2
    assert "--hard writes pictures" in capsys.readouterr().err
