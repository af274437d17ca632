"""A run written by hand and read again, and the page about it."""

from collections.abc import Callable

import pytest

from nearfar.report.page import write_report
from nearfar.report.run import Run, read_run
from tests.support.pages import ReadPage
from tests.support.run_dirs import summary_of, write_run


@pytest.fixture
def made(tmp_path) -> Callable[..., Run]:
    """Write a run and read it."""

    def make(lines, **more):
        lines = list(lines)
        more.setdefault("summary", summary_of(lines))
        return read_run(write_run(tmp_path / "run", lines, **more))

    return make


@pytest.fixture
def page(made) -> Callable[..., ReadPage]:
    """Write a run, report on it, and read the page."""

    def make(lines, **more):
        path, _ = write_report(made(lines, **more).path)
        return ReadPage(path.read_text())

    return make
