"""What every test lives by: nothing is left running, and a missing service is only a skip on a developer's machine."""

import logging
import os
import signal
import threading
from collections.abc import Iterator

import psutil
import pytest
from zmq.utils.garbage import GarbageCollectorThread

from tests.support.eventually import eventually
from tests.support.postgres import PostgresServer
from tests.support.programs import program

LEFT_OVER_WITHIN_S = 3.0


def pytest_configure() -> None:
    """Whoever starts the tests in the background or under nohup hands on that SIGINT or SIGHUP is ignored, and so would
    every program that a test starts and then sends one."""
    for number, action in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, action)


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("service"):
        (name,) = marker.args
        if program(name) is None:
            words = f"needs the program {name!r}, which is not installed"
            if os.environ.get("CI"):
                pytest.fail(words)
            pytest.skip(words)


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    """A command run in this process sets the log level for good; the next test reads its own logs all the same."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    yield
    root.setLevel(level)
    for handler in set(root.handlers) - set(handlers):
        root.removeHandler(handler)


@pytest.fixture(autouse=True)
def _nothing_left_running() -> Iterator[None]:
    """A thread or process that outlives its test fails it."""
    me = psutil.Process()
    threads = set(threading.enumerate())
    children = {child.pid for child in me.children(recursive=True)}
    yield

    def left_threads() -> list[threading.Thread]:
        return [
            t
            for t in threading.enumerate()
            # pyzmq's collector of zero-copy messages is one per process and never ends.
            if t not in threads and t.is_alive() and not isinstance(t, GarbageCollectorThread)
        ]

    def left_children() -> list[psutil.Process]:
        return [c for c in me.children(recursive=True) if c.pid not in children]

    try:
        eventually(
            lambda: not left_threads() and not left_children(),
            LEFT_OVER_WITHIN_S,
            "the end of every thread and process of this test",
        )
    except AssertionError:
        names = [t.name for t in left_threads()] + [str(c) for c in left_children()]
        for child in left_children():
            child.kill()
        pytest.fail(f"left running: {', '.join(names)}")


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A real server for all tests of the run; mark the test `service("postgres")`."""
    with PostgresServer() as server:
        yield server
