"""Files a command writes: what cannot be written is said before the work, and in words if it fails after all."""

import json
from pathlib import Path

import pytest

from nearfar.cli import outputs
from nearfar.cli.main import run
from pipelines.errors import ConfigError

RECIPE = Path(__file__).parents[3] / "pipelines/recipes/synthetic.yaml"


@pytest.mark.parametrize(
    ("option", "to", "words"),
    [
        ("--json", "missing/out", "no such folder; make it, or name another"),
        ("--json", "folder", "it is a folder"),
        ("--plot", "missing/out", "no such folder"),
        ("--plot", "folder", "is a directory"),
    ],
)
def test_a_simulation_that_could_not_be_written_down_is_not_begun(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str, to: str, words: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "up.mbit").write_text("12.0\n")
    arguments = ["simulate", str(RECIPE), "--trace", str(tmp_path / "up.mbit"), option, str(tmp_path / to)]
    assert run(arguments) == 2
    told = capsys.readouterr()
    assert words in told.err
    assert "gap between" not in told.out


def test_a_plot_without_its_package_is_said_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outputs, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"pip install 'nearfar\[report\]'"):
        outputs.check_plot(tmp_path / "plot.html")
    outputs.check_plot(None)


def test_a_full_disk_is_said_with_the_file_it_is_about(tmp_path: Path) -> None:
    def fill_the_disk() -> None:
        with outputs.writing(tmp_path / "out.json"):
            raise OSError(28, "No space left on device")

    with pytest.raises(ConfigError, match=r"cannot write .*out\.json: No space left"):
        fill_the_disk()


def test_json_goes_to_the_file_or_to_stdout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outputs.write_json({"a": 1}, str(tmp_path / "out.json"))
    outputs.write_json({"a": 2}, "-")
    assert json.loads((tmp_path / "out.json").read_text()) == {"a": 1}
    assert json.loads(capsys.readouterr().out) == {"a": 2}
