"""When a picture is due: waiting never drifts, and being late makes no burst."""

from edge.capture.reader import Pace


def test_pictures_are_due_at_start_plus_i_periods_however_late_each_wake_up_was():
    pace = Pace(fps=30)
    start = 5_000_000
    late_by = [0, 900, 12_000, 300, 31_000, 0, 5]
    now = start
    due = []
    for late in late_by * 30:
        moment = pace.next_us(now)
        due.append(moment)
        now = max(now, moment) + late
    assert due == [start + round(i * 1e6 / 30) for i in range(len(due))]


def test_a_reader_more_than_a_period_late_starts_anew_and_does_not_burst():
    pace = Pace(fps=10)
    assert [pace.next_us(0), pace.next_us(0)] == [0, 100_000]
    assert pace.next_us(650_000) == 650_000
    assert [pace.next_us(650_000) for _ in range(3)] == [750_000, 850_000, 950_000]


def test_a_reader_less_than_a_period_late_keeps_its_count():
    pace = Pace(fps=10)
    pace.next_us(0)
    assert pace.next_us(190_000) == 100_000
    assert pace.next_us(190_000) == 200_000
