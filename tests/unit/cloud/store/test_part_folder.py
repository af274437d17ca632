"""Uploads that are not whole yet, as files."""

import os
from pathlib import Path

import pytest

from cloud.store.payloads.folder import content_hash
from cloud.store.payloads.part_folder import PartFolder
from pipelines.errors import Rejected, Retryable

DATA = bytes(range(256)) * 4
SHA = content_hash(DATA)


@pytest.fixture
def parts(tmp_path: Path) -> PartFolder:
    return PartFolder(tmp_path / "parts", max_bytes=3000)


def write(parts: PartFolder, at: int, end: int, agent: str = "gw", sha256: str = SHA) -> int:
    return parts.write(agent, sha256, DATA[at:end], offset_bytes=at, size_bytes=len(DATA))


def test_a_part_grows_only_at_its_end(parts: PartFolder) -> None:
    assert [write(parts, 0, 100), write(parts, 200, 300), write(parts, 0, 100)] == [100, 100, 100]
    assert [write(parts, 50, 200), write(parts, 200, 1024)] == [200, 1024]
    assert parts.whole("gw", SHA) == DATA


def test_another_agent_cannot_spoil_a_part(parts: PartFolder) -> None:
    write(parts, 0, 1000)
    parts.write("other", SHA, b"?" * 1024, offset_bytes=0, size_bytes=1024)
    assert parts.whole("other", SHA) is None
    write(parts, 1000, 1024)
    assert parts.whole("gw", SHA) == DATA


def test_a_whole_part_that_is_not_what_it_said_is_gone(parts: PartFolder) -> None:
    parts.write("gw", SHA, b"?" * 1024, offset_bytes=0, size_bytes=1024)
    assert parts.whole("gw", SHA) is None
    assert parts.length("gw", SHA) == 0


def test_a_new_part_displaces_those_nobody_added_to_for_longest(parts: PartFolder) -> None:
    for age, name in enumerate(("a", "b"), start=1):
        write(parts, 0, 1024, sha256=name)
        os.utime(parts.root / f"{name}.gw", (age, age))
    write(parts, 0, 10)
    assert [parts.length("gw", name) for name in ("a", "b", SHA)] == [0, 1024, 10]


def test_parts_left_alone_are_cleared(parts: PartFolder) -> None:
    write(parts, 0, 10)
    write(parts, 0, 10, sha256="old")
    os.utime(parts.root / "old.gw", (5, 5))
    assert parts.clear_untouched_since(6.0) == 1
    assert (parts.length("gw", "old"), parts.length("gw", SHA)) == (0, 10)


def test_more_than_was_announced_is_not_written(parts: PartFolder) -> None:
    with pytest.raises(Rejected, match="more than the 5 announced"):
        parts.write("gw", SHA, b"123456", offset_bytes=0, size_bytes=5)
    assert parts.length("gw", SHA) == 0


def test_a_payload_folder_that_is_not_mounted_is_not_made_but_waited_for(tmp_path: Path) -> None:
    parts = PartFolder(tmp_path / "not-mounted" / "parts", max_bytes=3000)
    assert parts.length("gw", SHA) == 0
    assert parts.clear_untouched_since(1e12) == 0
    with pytest.raises(Retryable, match="cannot write"):
        write(parts, 0, 10)
    assert not (tmp_path / "not-mounted").exists()


def test_a_disk_that_refuses_is_tried_again_later(parts: PartFolder) -> None:
    (parts.root / f"{SHA}.gw").mkdir(parents=True)
    with pytest.raises(Retryable):
        parts.whole("gw", SHA)
