"""A file is new or old, never half, and nothing is left beside it."""

import errno
import os
import stat
from pathlib import Path

import pytest

from pipelines.whole_file import sync_folder, write_whole


def test_new_content_stands_alone_in_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    write_whole(path, b"first")
    write_whole(path, b"second")
    assert path.read_bytes() == b"second"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("step", ["write", "fsync", "replace"])
def test_what_cannot_be_written_leaves_the_old_content_and_no_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path = tmp_path / "state.json"
    path.write_bytes(b"old")

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    if step == "write":
        monkeypatch.setattr(os, "fdopen", full)
    else:
        monkeypatch.setattr(os, step, full)
    with pytest.raises(OSError, match="No space"):
        write_whole(path, b"new")
    monkeypatch.undo()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_content_and_name_are_on_the_disk_before_it_returns_where_that_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[bool] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(stat.S_ISDIR(os.fstat(descriptor).st_mode))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    write_whole(tmp_path / "a", b"x", durable=False)
    assert synced == []
    write_whole(tmp_path / "a", b"x")
    assert synced == [False, True], "the file, then the folder"


def test_a_draft_may_lie_elsewhere_and_what_a_kill_left_of_one_is_no_obstacle(tmp_path: Path) -> None:
    draft = tmp_path / "begun" / "x"
    draft.parent.mkdir()
    draft.write_bytes(b"half of something longer than the new content")
    write_whole(tmp_path / "a", b"new", draft=draft)
    assert (tmp_path / "a").read_bytes() == b"new"
    assert not draft.exists()


def test_a_draft_behind_a_planted_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "theirs").write_bytes(b"precious")
    draft = tmp_path / "draft"
    draft.symlink_to(tmp_path / "theirs")
    with pytest.raises(OSError, match="symbolic links"):
        write_whole(tmp_path / "a", b"new", draft=draft)
    assert (tmp_path / "theirs").read_bytes() == b"precious"


def test_a_file_that_few_may_read_is_at_no_moment_read_by_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "secret.yaml"
    path.write_bytes(b"old")
    path.chmod(0o600)
    modes: list[int] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        modes.extend(stat.S_IMODE(one.stat().st_mode) for one in tmp_path.iterdir())
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    write_whole(path, b"new", like=path.stat())
    assert set(modes) == {0o600}


@pytest.mark.parametrize(("number", "raises"), [(errno.EINVAL, False), (errno.EIO, True)])
def test_a_file_system_that_syncs_no_folders_is_no_fault_and_a_broken_disk_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, *, raises: bool
) -> None:
    def fsync(_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fsync)
    if raises:
        with pytest.raises(OSError, match="error"):
            sync_folder(tmp_path)
    else:
        sync_folder(tmp_path)
