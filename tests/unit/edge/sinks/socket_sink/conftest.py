"""An answer socket in a folder of its own, by a clock of its own, and readers that connect to it."""

import tempfile
from pathlib import Path

import pytest

from edge.sinks.unix_socket import UnixSocketSink
from tests.support.eventually import eventually
from tests.support.socket_readers import Clock, Reader


@pytest.fixture
def home():
    # Not tmp_path: a socket's path must be short.
    with tempfile.TemporaryDirectory() as root:
        yield Path(root)


@pytest.fixture
def path(home):
    return home / "run" / "answers.sock"


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def sink(path, clock):
    made = UnixSocketSink(path=path, clock_us=clock)
    yield made
    made.close()


@pytest.fixture
def connect(sink, path):
    readers = []

    def one():
        before = sink.readers
        readers.append(Reader(path))
        eventually(lambda: sink.readers == before + 1, what="the reader")
        return readers[-1]

    yield one
    for reader in readers:
        reader.close()
