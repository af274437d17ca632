"""Answers as lines in a file: what a full disk takes is counted, and every key of its block reaches it."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pydantic import ValidationError

from edge.sinks.base import SinkThread
from edge.sinks.jsonl import JsonlSink
from tests.support.answers import answer
from tests.support.eventually import eventually
from tests.support.neighbours import names
from tests.support.sinks import sink, sink_config


@pytest.fixture
def path(tmp_path):
    return tmp_path / "answers.jsonl"


FULL = """
import json, resource, signal, sys
from functools import partial
from pathlib import Path
from edge.sinks.base import SinkThread
from edge.sinks.jsonl import JsonlSink
from tests.support.answers import answer
from tests.support.eventually import eventually

path = Path(sys.argv[1])
thread = SinkThread(JsonlSink(path=path), name="jsonl")
thread.start()

def settled(seq):
    return thread.written + thread.failed == seq

def give(*seqs):
    for seq in seqs:
        thread.offer(answer(seq))
        eventually(partial(settled, seq), what="the answer")

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
give(1, 2)
before = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 100, before[1]))
give(3, 4)
torn = path.read_bytes()[-1:] != b"\\n"
resource.setrlimit(resource.RLIMIT_FSIZE, before)
give(5)
thread.close()
print(json.dumps([thread.written, thread.failed, thread.lost, torn]))
"""


def test_on_a_full_disk_no_line_is_torn_what_failed_is_counted_and_it_goes_on_when_there_is_room(path):
    # A size limit stands for the disk, in a process of its own: the third line fits in part only.
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, timeout=60, check=True
    )
    assert json.loads(done.stdout) == [3, 2, 2, False]
    assert [json.loads(line)["seq"] for line in path.read_text().splitlines()] == [1, 2, 5]


def test_a_device_that_takes_nothing_fails_each_answer_and_stops_nobody():
    thread = SinkThread(JsonlSink(path=Path("/dev/full")), name="full")
    thread.start()
    for seq in (1, 2):
        thread.offer(answer(seq))
    assert thread.close()
    assert (thread.written, thread.failed) == (0, 2)
    assert "No space left" in thread.last_error


def test_every_key_of_rotate_reaches_the_file(tmp_path):
    made = sink(
        tmp_path,
        kind="jsonl",
        path=tmp_path / "a.jsonl",
        rotate={"max_bytes": "4KiB", "max_age": "1h", "keep": 1, "compress": "zstd"},
    )
    for seq in range(1, 60):
        made.write(answer(seq))
        made.flush()
    eventually(
        lambda: len(found := names(tmp_path / "x")) == 2 and found[0].endswith(".zst"), what="one old file"
    )
    made.close()
    assert made.counts()["rotated"] > 1


def test_a_file_is_full_at_the_age_its_block_says(tmp_path):
    made = sink(tmp_path, kind="jsonl", path=tmp_path / "a.jsonl", rotate={"max_age": "1s"})

    def rotated() -> int:
        made.write(answer(1))
        made.flush()
        return int(made.counts()["rotated"])

    begun_s = time.monotonic()
    eventually(rotated, what="a file with a number")
    assert time.monotonic() - begun_s >= 1.0
    made.close()


@pytest.mark.parametrize(
    ("rotate", "words"),
    [
        ({}, "say max_bytes, max_age or both"),
        ({"max_bytes": "10B"}, "at least 4KiB"),
        ({"max_age": "1ms"}, "at least 1s"),
        ({"max_bytes": "1MiB", "keep": 0}, "greater than or equal to 1"),
        ({"max_bytes": "1MiB", "compress": "gzip"}, "'none' or 'zstd'"),
    ],
)
def test_a_rotation_that_cannot_work_is_refused_with_words(tmp_path, rotate, words):
    with pytest.raises(ValidationError, match=words):
        sink_config(kind="jsonl", path=tmp_path / "a.jsonl", rotate=rotate)
