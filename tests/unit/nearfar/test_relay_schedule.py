"""The schedule of a relay: read in order, or refused in words."""

from pathlib import Path

import pytest

from nearfar.cli.main import run
from nearfar.relay_schedule import load_schedule
from pipelines.errors import ConfigError


def test_a_schedule_is_read_in_order_of_time(tmp_path: Path) -> None:
    path = tmp_path / "bad-day.yaml"
    path.write_text(
        "- {at: 10s, state: stall}\n- {at: 0s, rtt_ms: 20, rate_mbit: 10}\n- {at: 500ms, rtt_ms: 9}\n"
    )
    steps = load_schedule(path)
    assert [step.at for step in steps] == [0, 500_000, 10_000_000]
    assert (steps[0].rtt_ms, steps[0].rate_mbit, steps[0].state) == (20, 10, None)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- {at: 1s, state: melt}", "pass"),
        ("- {at: soon}", "soon"),
        ("- {at: 1s, rtt: 20}", "rtt"),
        ("- {rtt_ms: 20}", "at"),
        ("- {at: 1s, rtt_ms: -1}", "greater than or equal to 0"),
        ("at: 1s", "list"),
        ("", "list"),
        ("- {at: [", "write steps such as - {at: 10s, rtt_ms: 200}"),
        ("[]", "at least 1"),
    ],
)
def test_a_schedule_that_is_none_is_refused_with_file_and_words(
    tmp_path: Path, text: str, words: str
) -> None:
    path = tmp_path / "bad-day.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as refusal:
        load_schedule(path)
    assert "bad-day.yaml" in str(refusal.value)
    assert words in str(refusal.value)


def test_a_schedule_that_is_not_there_is_a_usage_error_of_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "none.yaml"
    with pytest.raises(ConfigError, match=r"cannot read .*none.yaml: No such file"):
        load_schedule(path)
    arguments = ["relay", "--listen", "127.0.0.1:0", "--to", "127.0.0.1:1", "--schedule", str(path)]
    assert run(arguments) == 2
    assert "cannot read" in capsys.readouterr().err
