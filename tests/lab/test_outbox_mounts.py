"""The outbox on a real file system that is too small, and on one that is mounted read-only under it. Needs root."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from edge.outbox.file.sqlite import SqliteOutbox
from tests.support.outboxes import SECOND, Desk, record

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(os.geteuid() != 0 or shutil.which("mount") is None, reason="needs root and mount"),
]


def mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True, capture_output=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "disk"
    path.mkdir()
    mount("-t", "tmpfs", "-o", "size=512k", "tmpfs", str(path))
    yield path
    subprocess.run(["umount", "--lazy", str(path)], check=True)


def answers(desk: Desk, seqs: range, *, boxes: int) -> None:
    for seq in seqs:
        desk.keeper.captured("door", seq)
        desk.keeper.append(record(seq, boxes=boxes), desk.now_us)
        desk.go(50_000)
        desk.keeper.settled("door", seq)


def test_a_full_disk_keeps_answers_in_memory_and_heals_as_the_cloud_takes_them(disk: Path) -> None:
    desk = Desk(SqliteOutbox(disk / "outbox.db"))
    answers(desk, range(1, 301), boxes=60)
    full = desk.keeper.stats()
    assert full.uncommitted > 0
    assert full.pending > 0
    assert full.last_error
    desk.connect()
    up: set[int] = set()
    for _ in range(400):
        desk.go(100_000)
        up |= {r.id.seq for r in desk.deliver()}
    stats = desk.keeper.stats()
    assert up == set(range(1, 301))
    assert (stats.empty, stats.balance, stats.lost, stats.set_aside_files, stats.last_error) == (
        True,
        0,
        0,
        0,
        "",
    )
    desk.store.close(desk.now_us)


def test_a_disk_that_others_fill_to_the_last_byte_is_waited_for(disk: Path) -> None:
    desk = Desk(SqliteOutbox(disk / "outbox.db"))
    answers(desk, range(1, 11), boxes=1)
    with (disk / "others").open("wb", buffering=0) as others, suppress(OSError):
        while others.write(bytes(512)):
            pass
    answers(desk, range(11, 21), boxes=1)
    assert desk.keeper.stats().uncommitted == 10
    assert "disk is full" in desk.keeper.stats().last_error
    (disk / "others").unlink()
    desk.go(6 * SECOND)
    stats = desk.keeper.stats()
    assert desk.committed == list(range(1, 21))
    assert (stats.uncommitted, stats.lost, stats.set_aside_files, stats.balance) == (0, 0, 0, 0)
    desk.store.close(desk.now_us)


def test_a_disk_remounted_read_only_is_waited_for(disk: Path) -> None:
    desk = Desk(SqliteOutbox(disk / "outbox.db"))
    answers(desk, range(1, 11), boxes=1)
    # Busy with our open files it refuses a plain remount, as a dying card's kernel does not: bind over it.
    mount("--bind", str(disk), str(disk))
    mount("-o", "remount,bind,ro", str(disk))
    desk.store.let_go()  # type: ignore[attr-defined]
    answers(desk, range(11, 21), boxes=1)
    stats = desk.keeper.stats()
    assert (stats.uncommitted, stats.set_aside_files) == (10, 0)
    assert stats.last_error
    subprocess.run(["umount", str(disk)], check=True)
    desk.go(6 * SECOND)
    stats = desk.keeper.stats()
    assert desk.committed == list(range(1, 21))
    assert (stats.uncommitted, stats.lost, stats.set_aside_files, stats.balance, stats.last_error) == (
        0,
        0,
        0,
        0,
        "",
    )
    desk.store.close(desk.now_us)


PIPELINE = """
version: 1
state_dir: {disk}
deadline: 100ms
streams: {{door: {{source: {{kind: synthetic, size: 64x48, fps: 15}}}}}}
near: {{detector: {{kind: synthetic}}}}
links: {{}}
sinks: [{{kind: jsonl, path: {answers}}}]
"""


@pytest.mark.parametrize("used", [False, True])
def test_an_agent_whose_disk_turned_read_only_starts_and_answers(
    disk: Path, tmp_path: Path, used: bool
) -> None:
    (tmp_path / "p.yaml").write_text(PIPELINE.format(disk=disk, answers=tmp_path / "answers.jsonl"))
    command = [sys.executable, "-m", "nearfar", "edge", str(tmp_path / "p.yaml"), "--frames", "20"]
    if used:
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        (tmp_path / "answers.jsonl").unlink()
    mount("-o", "remount,ro", str(disk))
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    answers = (tmp_path / "answers.jsonl").read_text().splitlines()
    assert len(answers) == 20, done.stderr
    assert done.returncode == 1, "what the disk did not keep is a broken promise"
    assert "the outbox cannot write" in done.stderr


def test_an_agent_that_starts_first_on_a_full_disk_answers_and_keeps_no_record_before_its_name(
    disk: Path, tmp_path: Path
) -> None:
    (tmp_path / "p.yaml").write_text(PIPELINE.format(disk=disk, answers=tmp_path / "answers.jsonl"))
    with (disk / "others").open("wb", buffering=0) as others, suppress(OSError):
        while others.write(bytes(512)):
            pass
    command = [sys.executable, "-m", "nearfar", "edge", str(tmp_path / "p.yaml"), "--frames", "20"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert len((tmp_path / "answers.jsonl").read_text().splitlines()) == 20, done.stderr
    assert "cannot be kept" in done.stderr
    assert not (disk / "outbox.db").exists()
    (disk / "others").unlink()
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    assert (disk / "agent").read_text().startswith("gw-")
    assert (disk / "outbox.db").exists()
