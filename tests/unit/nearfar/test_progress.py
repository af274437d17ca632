"""What a command is doing, at a terminal and in a log."""

import io

import pytest

from nearfar.progress import EVERY_US, Progress, StatusLine


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_at_a_terminal_each_text_is_written_over_the_last_and_nothing_of_it_stays() -> None:
    out = Terminal()
    line = StatusLine(out)
    line.show("loading the model")
    line.show("warming up")
    line.wipe()
    assert out.getvalue().split("\r")[1:] == ["loading the model", "warming up".ljust(17), " " * 10, ""]


def test_in_a_log_it_is_said_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    out, now_us = io.StringIO(), [0]
    monkeypatch.setattr("sys.stderr", out)
    progress = Progress(clock_us=lambda: now_us[0])
    for words in ("one", "two", "three"):
        progress.doing(words)
        now_us[0] += EVERY_US // 2
    progress.over()
    assert out.getvalue() == "one\nthree\n"


def test_where_nobody_reads_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", None)
    progress = Progress(clock_us=lambda: 0)
    progress.doing("one")
    progress.over()
