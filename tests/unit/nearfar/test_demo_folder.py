"""A demo deletes what a demo wrote, and nothing else, ever."""

import pytest

from edge.identity import StateDir
from nearfar.demo.folder import MARKER, WRITTEN, prepare
from pipelines.errors import ConfigError


def everything(root):
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


@pytest.mark.parametrize("name", ["pipeline.yaml", "worker", "notes.txt", ".git"])
def test_a_folder_no_demo_wrote_is_refused_and_untouched(tmp_path, name):
    """`nearfar demo --out .` in a project of one's own."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "main.py").write_text("mine")
    (tmp_path / name).write_text("mine as well")
    before = everything(tmp_path)
    with pytest.raises(ConfigError, match=r"no demo wrote it .*nothing was touched; choose another folder"):
        prepare(tmp_path)
    assert everything(tmp_path) == before


def test_of_an_earlier_demo_only_what_it_wrote_is_replaced(tmp_path):
    out = tmp_path / "demo"
    prepare(out)
    for name in WRITTEN:
        (out / name).write_text("old")
    (out / "gateway").unlink()
    (out / "gateway").mkdir()
    (out / "gateway" / "outbox.db").write_text("old")
    (out / "notes.txt").write_text("mine")
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "me.jpg").write_text("mine")
    (out / "worst").unlink()
    (out / "worst").symlink_to(tmp_path / "photos")
    prepare(out)
    assert sorted(p.name for p in out.iterdir()) == [MARKER, "notes.txt"]
    assert (tmp_path / "photos" / "me.jpg").exists()


@pytest.mark.parametrize("there", [True, False])
def test_a_new_or_an_empty_folder_is_taken(tmp_path, there):
    out = tmp_path / "runs" / "demo"
    if there:
        out.mkdir(parents=True)
    prepare(out)
    assert [p.name for p in out.iterdir()] == [MARKER]


def test_a_demo_that_still_runs_keeps_its_folder(tmp_path):
    prepare(tmp_path)
    (tmp_path / "frames.jsonl").write_text("{}")
    held = StateDir(tmp_path / "gateway")
    try:
        with pytest.raises(ConfigError, match="a demo runs in"):
            prepare(tmp_path)
        assert (tmp_path / "frames.jsonl").exists()
    finally:
        held.close()


def test_a_place_that_cannot_be_written_is_told_in_words(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="Not a directory; choose another folder with --out"):
        prepare(tmp_path / "file" / "demo")
