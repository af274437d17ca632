"""What rows of counts come to, and what is said about it."""

import json

import pytest

from edge.config.scheduler_settings import rung_of
from nearfar.calibrate.figures import figures, remarks
from nearfar.calibrate.rows import as_file, undisturbed
from nearfar.calibrate.table import headline, table
from nearfar.simulation.accuracies import scored
from pipelines.errors import ConfigError
from tests.support.calibrated import calibration, near_figures, row, rung, rung_figures

LADDER = (rung(80), rung(20))
ROWS = [
    row(2, near=(1, 0), far=[(2, 0), (1, 1)]),
    row(0, near=(0, 0), far=[(0, 0), (0, 0)]),
    row(4, near=(2, 1), far=[(4, 0), (3, 0)], size_bytes=11_000),
]


def found(rows=ROWS):
    return figures(rows, ladder=LADDER, clips=["hall.mp4"], far="far", near="near@224")


def test_accuracy_is_f1_over_all_boxes_and_an_empty_picture_counts_nothing():
    made = found()
    assert made.near is not None
    assert made.near.accuracy == pytest.approx(2 * 3 / (2 * 3 + 1 + 3), abs=1e-4)
    assert [figures.accuracy for figures in made.rungs] == [
        1.0,
        pytest.approx(2 * 4 / (2 * 4 + 1 + 2), abs=1e-4),
    ]
    assert (made.boxes, made.frames) == (6, 3)
    assert found([ROWS[0], ROWS[2]]).near.accuracy == made.near.accuracy


def test_accuracy_is_that_of_the_file_a_simulation_reads():
    made = scored(as_file(ROWS, [rung_of(step) for step in LADDER], made_from="test"))
    assert [round(scores.f1, 4) for scores in made.rungs] == [figures.accuracy for figures in found().rungs]
    assert made.size_bytes[0] == (9_000, 9_000, 11_000)


def test_bytes_and_times_are_summed_up():
    best = found().rungs[0]
    assert (best.bytes_mean, best.bytes_p95) == (9_667, 11_000)
    assert (best.encode_p50_us, best.run_p95_us) == (2_000, 20_000)


def test_more_pictures_make_an_accuracy_surer():
    few, many = found(ROWS), found(ROWS * 25)
    assert few.near.accuracy == many.near.accuracy
    assert 0 < many.near.ci95 < few.near.ci95 / 4
    assert found().rungs[0].ci95 == 0.0  # always right


def test_a_clip_in_which_far_sees_nothing_teaches_nothing():
    with pytest.raises(ConfigError, match=r"far sees nothing in 1 pictures of hall\.mp4"):
        found([ROWS[1]])


def test_a_simulation_needs_near():
    with pytest.raises(ValueError, match="without near"):
        as_file([ROWS[0].model_copy(update={"near": None})], [rung_of(step) for step in LADDER], made_from="")


def test_near_as_good_as_far_is_said():
    rungs = (rung_figures(0.80, 9_000), rung_figures(0.78, 5_000))
    (words,) = remarks(calibration(rungs, near=near_figures(0.83)), rungs)
    assert "near (0.830) is as good as far at every rung (best 0.800)" in words
    assert "no frame is worth sending" in words


def test_a_rung_below_near_is_named():
    rungs = (rung_figures(0.95, 20_000), rung_figures(0.70, 3_000))
    (words,) = remarks(calibration(rungs, near=near_figures(0.8)), rungs)
    assert words.startswith("jpeg q70 ×0.5 (0.700) is not above near (0.800)")


def test_few_boxes_are_said_and_so_is_a_smaller_input_that_sees_no_less():
    rungs = (rung_figures(0.95, 20_000),)
    made = calibration(rungs, near=near_figures(0.8), smaller=[near_figures(0.81, "yolox@160x160")], boxes=40)
    few, small = remarks(made, rungs)
    assert "only 40 boxes" in few
    assert "yolox@160x160 (0.810) sees no less than near" in small


def test_nothing_is_said_when_all_is_as_it_should_be():
    rungs = (rung_figures(0.95, 20_000), rung_figures(0.9, 9_000))
    assert remarks(calibration(rungs, near=near_figures(0.8)), rungs) == []


def test_json_is_plain_and_says_how_each_rung_was_made():
    plain = json.loads(json.dumps(found().as_dict()))
    assert plain["rungs"][1]["rung"] == {"codec": "jpeg", "quality": 20, "scale": 1.0}
    assert plain["rungs"][1]["bytes_mean"] == 9_667
    assert plain["near"]["accuracy"] == 0.6


def test_the_table_has_a_row_for_everybody():
    made = calibration(
        (rung_figures(0.95, 20_000),), near=near_figures(0.8), smaller=[near_figures(0.6, "yolox@160x160")]
    )
    rows = table(made, made.rungs).splitlines()
    assert [line.split()[:2] for line in rows[1:]] == [
        ["near", "yolox@224x224"],
        ["near", "yolox@160x160"],
        ["far", "jpeg"],
    ]
    assert rows[3].split()[-8:] == ["0.950", "0.010", "20.0", "20.1", "2.0", "3.0", "20.0", "25.0"]
    assert headline(made).startswith("hall.mp4: 100 pictures; the reference is what people-512")


def test_durations_in_which_the_machine_did_something_else_are_left_out():
    assert undisturbed([10, 11, 12, 400, 9]) == [10, 11, 12, 9]
