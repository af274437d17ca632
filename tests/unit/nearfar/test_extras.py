"""A command whose extra is missing says how to get it, and shows no traceback."""

from pathlib import Path

import pytest

from nearfar import extras
from nearfar.cli import main as command_line
from pipelines.errors import ConfigError

RECIPES = Path(__file__).parents[3] / "pipelines" / "recipes"


def nothing_installed(module: str) -> None:
    del module


def test_what_is_installed_is_not_spoken_of() -> None:
    extras.must_have("cloud", ("json",), who="nearfar cloud")
    with pytest.raises(
        ConfigError, match=r"^x needs no_such_a and no_such_b; run: pip install 'nearfar\[more\]'"
    ):
        extras.must_have("more", ("no_such_a", "json", "no_such_b"), who="x")


@pytest.mark.parametrize(
    "words",
    [
        ["cloud", str(RECIPES / "worker-synthetic.yaml")],
        ["records", "--store", "sqlite:////nowhere/records.db"],
    ],
    ids=["cloud", "records"],
)
def test_without_the_extra_a_command_names_it(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(extras, "find_spec", nothing_installed)
    assert command_line.run(words) == 2
    assert "pip install 'nearfar[cloud]'" in capsys.readouterr().err
