"""How far a calibration is, in words."""

import io

import pytest

from nearfar.calibrate.progress import Progress, words


@pytest.mark.parametrize(
    ("count", "of", "took_s", "said"),
    [
        (40, 200, 20.0, "work: 40 of 200, 1 min 20 s left"),
        (190, 200, 19.0, "work: 190 of 200, 1 s left"),
        (0, 200, 3.0, "work: 0 of 200"),
        (7, 0, 3.0, "work: 7"),
        (201, 200, 3.0, "work: 201 of 200, 0 s left"),
    ],
)
def test_what_is_done_and_what_is_left_is_said(count, of, took_s, said):
    assert words("work", count=count, of=of, took_s=took_s) == said


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_nothing_of_it_stays_on_a_terminal(monkeypatch):
    monkeypatch.setattr("nearfar.calibrate.progress._EVERY_S", 0.0)
    out = Terminal()
    progress = Progress("work", of=2, out=out)
    progress.done(1)
    assert out.getvalue().startswith("\rwork: 1 of 2")
    progress.end()
    assert out.getvalue().rpartition("\r")[2] == ""
    assert out.getvalue().split("\r")[-2].strip() == ""


def test_a_log_is_not_flooded():
    out = io.StringIO()
    progress = Progress("work", of=1000, out=out)
    for count in range(1000):
        progress.done(count)
    progress.end()
    assert out.getvalue() == "work: 0 of 1000\n"
