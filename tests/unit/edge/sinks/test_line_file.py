"""A file of answers for years: it rotates, is moved or emptied by others, and no line is torn or lost silently."""

import os
import threading
from pathlib import Path

import pytest
import zstandard

from edge.sinks.line_file import LineFile
from edge.sinks.rotation import Rotation
from pipelines.errors import ConfigError
from tests.support.eventually import eventually
from tests.support.neighbours import names


class Clock:
    now_us = 0

    def __call__(self):
        return self.now_us


@pytest.fixture
def path(tmp_path):
    return tmp_path / "answers.jsonl"


def rotation(path, *, max_bytes=None, max_age_us=None, keep=7, compress=False):
    return Rotation(path, max_bytes=max_bytes, max_age_us=max_age_us, keep=keep, compress=compress)


def line_file(path, clock=None, **rotate):
    return LineFile(path, clock_us=clock or Clock(), rotation=rotation(path, **rotate) if rotate else None)


def put(file, *lines):
    for line in lines:
        file.write(line.encode())
    file.flush()


def test_before_a_file_grows_beyond_its_bytes_it_gets_a_number_and_a_new_one_begins(path):
    file = line_file(path, max_bytes=10)
    for line in ("aaaa", "bbbb", "cccc", "dddd", "eeee"):
        put(file, line)
    file.close()
    assert names(path) == ["answers-000001.jsonl", "answers-000002.jsonl", "answers.jsonl"]
    assert (path.parent / "answers-000001.jsonl").read_text() == "aaaa\nbbbb\n"
    assert path.read_text() == "eeee\n"
    assert file.rotated == 2


def test_a_batch_larger_than_a_file_may_be_goes_into_one_whole(path):
    file = line_file(path, max_bytes=10)
    put(file, "a" * 30)
    put(file, "b")
    file.close()
    assert path.read_text() == "b\n"


def test_a_file_rotates_by_age_with_the_next_line_and_never_when_it_is_empty(path):
    clock = Clock()
    file = line_file(path, clock, max_age_us=60)
    clock.now_us = 100
    put(file, "a")
    clock.now_us = 159
    put(file, "b")
    clock.now_us = 160
    put(file, "c")
    file.close()
    assert names(path) == ["answers-000001.jsonl", "answers.jsonl"]
    assert path.read_text() == "c\n"


def test_only_so_many_are_kept_and_numbers_go_on_after_a_restart(path):
    (path.parent / "answers-notes.jsonl").write_text("somebody else's")
    for _ in range(2):
        file = line_file(path, max_bytes=1, keep=2)
        for line in "abc":
            put(file, line)
        file.close()
    assert names(path) == [
        "answers-000004.jsonl",
        "answers-000005.jsonl",
        "answers-notes.jsonl",
        "answers.jsonl",
    ]


def test_files_with_a_number_are_compressed_and_only_whole_ones_have_the_name(path):
    file = line_file(path, max_bytes=6, compress=True)
    for line in ("aaaa", "bbbb", "cccc"):
        put(file, line)
        eventually(lambda: not [n for n in names(path) if n[-6:] == ".jsonl" and "-" in n], what="the zst")
    file.close()
    assert names(path) == ["answers-000001.jsonl.zst", "answers-000002.jsonl.zst", "answers.jsonl"]
    packed = (path.parent / "answers-000001.jsonl.zst").read_bytes()
    with zstandard.ZstdDecompressor().stream_reader(packed) as reader:
        assert reader.read() == b"aaaa\n"


def test_what_an_earlier_run_left_uncompressed_is_compressed_by_the_next(path):
    (path.parent / "answers-000001.jsonl").write_text("a\n")
    (path.parent / "answers-000001.jsonl.zst.part").write_text("half")
    made = rotation(path, max_bytes=10, compress=True)
    made.start()
    eventually(lambda: names(path) == ["answers-000001.jsonl.zst"], what="the compressed file")
    made.close()


def test_when_a_file_cannot_be_moved_lines_go_on_into_it_and_it_is_said_once(path, caplog, monkeypatch):
    file = line_file(path, max_bytes=1)

    def refuse(self, target):
        raise PermissionError(13, "Permission denied", str(target))

    monkeypatch.setattr(type(path), "rename", refuse)
    for line in "abc":
        put(file, line)
    file.close()
    assert path.read_text() == "a\nb\nc\n"
    assert len(caplog.records) == 1


@pytest.mark.parametrize("what", ["moved", "removed", "folder removed"])
def test_a_file_that_somebody_moved_or_removed_is_made_anew_with_the_next_line(tmp_path, what):
    path = tmp_path / "log" / "answers.jsonl"
    file = line_file(path)
    put(file, "a")
    if what == "moved":
        path.rename(path.with_suffix(".1"))
    else:
        path.unlink()
        if what == "folder removed":
            path.parent.rmdir()
    put(file, "b")
    file.close()
    assert path.read_text() == "b\n"
    assert file.reopened == 1


def test_a_file_that_somebody_emptied_goes_on_from_its_beginning(path):
    file = line_file(path)
    put(file, "a")
    os.truncate(path, 0)
    put(file, "b")
    file.close()
    assert path.read_bytes() == b"b\n"


def test_a_rotation_touches_nothing_before_its_file_could_be_opened(tmp_path):
    path = tmp_path / "answers.jsonl"
    path.mkdir()
    for number in range(1, 5):
        (tmp_path / f"answers-00000{number}.jsonl").write_text("a\n")
    before = names(path)
    with pytest.raises(ConfigError, match=r"cannot write to .*answers.jsonl"):
        line_file(path, max_bytes=10, keep=1, compress=True)
    assert names(path) == before
    assert not [t for t in threading.enumerate() if t.name.startswith("compress-")]


def test_a_file_that_cannot_be_looked_into_is_refused_and_leaves_no_descriptor_open(path, monkeypatch):
    def broken(self, *_mode):
        raise OSError(5, "Input/output error", str(self))

    before = len(list(Path("/proc/self/fd").iterdir()))
    path.write_text("a line that is cut off")
    monkeypatch.setattr(type(path), "open", broken)
    with pytest.raises(ConfigError, match="Input/output error"):
        line_file(path)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.parametrize(
    "trouble", [zstandard.ZstdError("out of memory"), MemoryError(), OSError(28, "full")]
)
def test_whatever_keeps_a_file_from_being_compressed_the_next_one_is(path, monkeypatch, caplog, trouble):
    made, packer = rotation(path, max_bytes=1, compress=True), zstandard.ZstdCompressor

    def broken(**_settings):
        raise trouble

    (path.parent / "answers-000001.jsonl").write_text("a\n")
    monkeypatch.setattr("edge.sinks.rotation.zstandard.ZstdCompressor", broken)
    made.start()
    eventually(lambda: caplog.records, what="the words")
    monkeypatch.setattr("edge.sinks.rotation.zstandard.ZstdCompressor", packer)

    def compressed():
        made.tidy()
        return names(path) == ["answers-000001.jsonl.zst"]

    eventually(compressed, what="the compressed file")
    made.close()
    assert len(caplog.records) == 1


def test_a_system_without_another_thread_costs_no_line(path, monkeypatch, caplog):
    def refuse(_thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    file = line_file(path, max_bytes=1, compress=True)
    for line in "abc":
        put(file, line)
    monkeypatch.undo()
    put(file, "d")
    eventually(lambda: len([n for n in names(path) if n.endswith(".zst")]) == 3, what="the compressed files")
    file.close()
    assert path.read_text() == "d\n"
    assert next(record.getMessage() for record in caplog.records).endswith("can't start new thread")


@pytest.mark.parametrize("compress", [False, True])
def test_what_a_killed_process_had_half_compressed_is_removed_and_what_is_not_ours_stays(path, compress):
    for part in ("answers-000001.jsonl.zst.part", "answers-notes.jsonl.zst.part", "x.part"):
        (path.parent / part).write_text("half")
    file = line_file(path, max_bytes=10, compress=compress)
    file.close()
    assert names(path) == ["answers-notes.jsonl.zst.part", "answers.jsonl", "x.part"]
