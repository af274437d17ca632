"""What the machine did to an emulated link is told apart from what the link did."""

from pathlib import Path

import pytest

from tests.bench.scenarios.disturbance import Disturbance

HEAD = "t_s,mono_s,up_late_max_us,down_late_max_us\n"


def packets(path: Path, late_us: dict[int, tuple[float, float]], ticks: int = 100) -> Path:
    """Ticks of 100 ms from 1000.0 s; `late_us` up and down by number of the tick, from 1."""
    rows = [
        f"{n / 10},{1000 + n / 10},{up},{down}\n"
        for n in range(1, ticks + 1)
        for up, down in [late_us.get(n, (300.0, 20.0))]
    ]
    file = path / "packets.csv"
    file.write_text(HEAD + "".join(rows))
    return file


def test_a_run_with_a_few_late_ticks_counts_and_one_with_many_does_not(tmp_path: Path) -> None:
    few = Disturbance.read(packets(tmp_path, {5: (1500.0, 0.0), 9: (0.0, 2500.0)}), 1000.0, 1010.05)
    assert (few.ends_s, few.ticks, few.late_max_us) == ([1000.5, 1000.9], 100, 2500.0)
    assert few.why_discarded() == ""
    many = Disturbance.read(packets(tmp_path, dict.fromkeys(range(10, 17), (1200.0, 0.0))), 1000.0, 1010.05)
    assert many.why_discarded() == "the relay was late in 7 % of the time, by up to 1.2 ms"


def test_what_was_late_before_the_first_frame_or_after_the_last_is_none_of_the_run(tmp_path: Path) -> None:
    file = packets(tmp_path, {1: (9000.0, 0.0), 100: (9000.0, 0.0)})
    assert Disturbance.read(file, 1000.15, 1009.95).ends_s == []


@pytest.mark.parametrize(
    ("end_s", "touched"),
    [
        (1000.50, {3, 4}),  # the tick lasts from .40 to .50; a frame of .30 has until .40
        (1000.05, {0}),
    ],
)
def test_frames_on_their_way_in_a_late_tick_are_left_out(end_s: float, touched: set[int]) -> None:
    disturbance = Disturbance([end_s], ticks=100, late_max_us=1500.0)
    assert disturbance.touched(first_s=1000.001, fps=10.0, count=8, deadline_s=0.1) == touched
