"""A file is new or old, never half."""

import stat

import pytest

from nearfar.calibrate.safe_write import replace_content


def test_content_is_replaced_and_rights_stay(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text("old")
    path.chmod(0o640)
    replace_content(path, b"new")
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert [p.name for p in tmp_path.iterdir()] == ["recipe.yaml"]


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    real = tmp_path / "real" / "recipe.yaml"
    real.write_text("old")
    link = tmp_path / "recipe.yaml"
    link.symlink_to(real)
    replace_content(link, b"new")
    assert link.is_symlink()
    assert real.read_text() == "new"


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_whatever_goes_wrong_the_file_is_as_it_was(tmp_path, monkeypatch, step, error):
    path = tmp_path / "recipe.yaml"
    path.write_text("old")

    def broken(*_args):
        raise error

    monkeypatch.setattr(f"nearfar.calibrate.safe_write.os.{step}", broken)
    with pytest.raises(type(error)):
        replace_content(path, b"new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["recipe.yaml"]
