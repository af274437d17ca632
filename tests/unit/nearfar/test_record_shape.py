"""Names and details of gateways in tables and CSV: they command neither a terminal nor a spreadsheet."""

import csv
import io
from dataclasses import replace

import pytest

from nearfar.records import shape
from pipelines.result import Gap, GapReason

GAP = Gap(run=bytes(16), stream="door", first=1, last=2, reason=GapReason.SHED)


@pytest.mark.parametrize("bad", ["\x1b[2J", "\x07", "a\nb", "\x9b31m", "\u202eevil", "tab\there"])
def test_nothing_in_a_gap_commands_the_terminal(bad: str) -> None:
    gap = replace(GAP, stream=bad, detail=bad)
    for line in shape.gap_table([(bad, gap)]):
        assert line.isprintable()


@pytest.mark.parametrize(
    ("reason", "words"), [(GapReason.SHED, " 256  shed"), (GapReason.INTERRUPTED, "up to 256  interrupted")]
)
def test_a_range_that_a_killed_agent_left_is_a_bound_and_no_count(reason: GapReason, words: str) -> None:
    _, line = shape.gap_table([("gw", replace(GAP, last=256, reason=reason))])
    assert line.endswith(words)
    assert ("up to" in line) == (reason is GapReason.INTERRUPTED)


def test_words_people_can_read_stay_as_they_are() -> None:
    assert shape.plain("Tür 3, größer als 5 µs – ok") == "Tür 3, größer als 5 µs – ok"


@pytest.mark.parametrize("bad", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1"])
def test_nothing_in_csv_is_a_formula(bad: str) -> None:
    out = io.StringIO()
    shape.write_gap_csv([("gw", replace(GAP, detail=bad))], out)
    _, line = csv.reader(io.StringIO(out.getvalue(), newline=""))
    assert line[-1] == f"'{bad}"
    assert line[3:5] == ["1", "2"], "numbers are numbers"


def test_one_record_is_one_line_of_csv_whatever_its_gateway_wrote() -> None:
    out = io.StringIO()
    shape.write_gap_csv([("gw", replace(GAP, detail="first\r=second\nthird"))], out)
    (_, line) = csv.reader(io.StringIO(out.getvalue(), newline=""))
    assert line[-1] == "first\\r=second\nthird"
