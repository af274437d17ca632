"""What a calibration leaves in the pipeline's file, and what it refuses to touch."""

from pathlib import Path

import pytest

from nearfar.calibrate.recipe_file import check_writable, read_recipe
from pipelines.errors import ConfigError
from tests.support.calibrated import calibration, near_figures, rung, rung_figures

RECIPE = """\
# Mine.
version: 1
streams:
  hall: {source: {kind: file, path: not-here.mp4}}
near:
  detector: {kind: synthetic}
  accuracy: 0.5    # a guess
links:
  lte: {url: "zmq://127.0.0.1:7440"}
scheduler:
  ladder:
    - {quality: 80}
    - {quality: 20, scale: 0.5}   # small
"""
LADDER = (
    rung_figures(0.9654, 40_321, of=rung(80)),
    rung_figures(0.8512, 6_049, of=rung(20, 0.5)),
)
FOUND = calibration(LADDER, near=near_figures(0.7911), clips=("/videos/hall one.mp4",))
DAY = "2026-05-04"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "hall.yaml"
    made.write_text(RECIPE)
    return made


def test_accuracies_and_bytes_are_written_and_the_rest_stays(path):
    recipe = read_recipe(path)
    recipe.write(recipe.with_findings(FOUND, LADDER, suggested=False, day=DAY))
    assert path.read_text() == RECIPE.replace("0.5    # a guess", "0.791    # a guess").replace(
        "  ladder:\n    - {quality: 80}\n    - {quality: 20, scale: 0.5}",
        "  # calibrated 2026-05-04: hall one.mp4, 100 pictures, against people-512 (yolox@512x512); near 7.0 ms, "
        "encode 2.0 ms, far 20.0 ms\n"
        "  ladder:\n"
        "    - {quality: 80, accuracy: 0.965, bytes: 40.3kB}\n"
        "    - {quality: 20, scale: 0.5, accuracy: 0.851, bytes: 6.0kB}",
    )
    read = read_recipe(path).config
    assert [(rung.accuracy, rung.bytes) for rung in read.scheduler.ladder] == [
        (0.965, 40_300),
        (0.851, 6_000),
    ]


def test_calibrating_twice_changes_the_values_and_adds_no_line(path):
    for day in (DAY, "2026-05-05"):
        recipe = read_recipe(path)
        recipe.write(recipe.with_findings(FOUND, LADDER, suggested=False, day=day))
    assert len(path.read_text().splitlines()) == len(RECIPE.splitlines()) + 1
    assert "2026-05-05" in path.read_text()


def test_a_suggested_ladder_takes_the_place_of_the_old_one(path):
    recipe = read_recipe(path)
    chosen = (rung_figures(0.9, 20_000, of=rung(50, 0.75)),)
    text = recipe.with_findings(FOUND, chosen, suggested=True, day=DAY)
    assert text.endswith(
        "  ladder:\n    - {codec: jpeg, quality: 50, scale: 0.75, accuracy: 0.9, bytes: 20.0kB}\n"
    )


def test_the_default_ladder_is_written_out_once_it_is_measured(path):
    path.write_text(RECIPE.partition("scheduler:")[0])
    recipe = read_recipe(path)
    text = recipe.with_findings(FOUND, LADDER[:1], suggested=False, day=DAY)
    assert "scheduler:\n  # calibrated" in text
    assert "    - {codec: jpeg, quality: 80, scale: 1.0, accuracy: 0.965, bytes: 40.3kB}" in text


def test_the_difference_is_shown_as_people_know_it(path):
    recipe = read_recipe(path)
    shown = recipe.diff(recipe.with_findings(FOUND, LADDER, suggested=False, day=DAY))
    assert "-  accuracy: 0.5    # a guess\n+  accuracy: 0.791    # a guess\n" in shown
    assert recipe.diff(recipe.text) == ""


def test_the_files_of_streams_need_not_be_here_but_the_model_of_near_must(path):
    assert read_recipe(path).config.streams["hall"].source.path.name == "not-here.mp4"  # type: ignore[union-attr]
    path.write_text(RECIPE.replace("kind: synthetic", "kind: yolox, model: gone.onnx, input: 32x32"))
    with pytest.raises(ConfigError, match=r"near\.detector\.model: no such file"):
        read_recipe(path)


@pytest.mark.parametrize("override", ["scheduler.ladder.0.quality=30", "near.accuracy=0.3", "scheduler={}"])
def test_what_would_be_written_cannot_come_from_the_command_line(path, override):
    with pytest.raises(ConfigError, match="write it there first"):
        check_writable(read_recipe(path, [override]))


def test_other_overrides_hold_for_the_measuring_and_are_not_written(path):
    recipe = read_recipe(path, ["near.detector.delay=1ms"])
    check_writable(recipe)
    assert recipe.config.near is not None
    assert recipe.config.near.detector.delay == 1_000  # type: ignore[union-attr]
    assert "delay" not in recipe.with_findings(FOUND, LADDER, suggested=False, day=DAY)


def test_a_file_that_shares_its_values_is_left_alone_and_the_values_are_told(path):
    shared = RECIPE.replace("- {quality: 80}", "- &one {quality: 80}\n    - *one")
    path.write_text(shared)
    ladder = (LADDER[0], LADDER[1], LADDER[1])
    with pytest.raises(ConfigError) as refused:
        read_recipe(path).with_findings(calibration(ladder, near=None), ladder, suggested=False, day=DAY)
    assert "Write this by hand" in str(refused.value)
    assert "scheduler.ladder.2.accuracy: 0.851" in str(refused.value)
    assert path.read_text() == shared


def test_words_changed_in_the_meantime_are_kept(path):
    recipe = read_recipe(path)
    path.write_text(RECIPE.replace("# Mine.", "# Ours."))
    now = recipe.as_it_is_now()
    assert now.with_findings(FOUND, LADDER, suggested=False, day=DAY).startswith("# Ours.\n")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("quality: 80", "quality: 81"),
        ("kind: synthetic", "kind: synthetic, boxes: 2"),
        ("  accuracy: 0.5    # a guess", "  accuracy: 0.5\n  smaller: {input: 96x96}"),
    ],
)
def test_a_recipe_that_is_not_what_was_measured_any_more_is_left_alone(path, old, new):
    recipe = read_recipe(path)
    path.write_text(RECIPE.replace(old, new))
    with pytest.raises(ConfigError, match="was changed while it was calibrated"):
        recipe.as_it_is_now()
