"""A value in a YAML file changes, and nothing else does: no comment, no quote, no order, no line end."""

from difflib import ndiff
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from edge.config.pipeline import PipelineConfig
from nearfar.calibrate.yaml_edit import EditError, with_comment_above, with_values
from pipelines.document import Document

RECIPES = Path(__file__).parents[4] / "pipelines/recipes"
PIPELINES = [path for path in sorted(RECIPES.glob("*.yaml")) if "streams:" in path.read_text()]
LADDER = ("scheduler", "ladder")
NEW_LADDER: list[dict[str, str | int | float]] = [
    {"codec": "jpeg", "quality": 80, "scale": 1.0, "accuracy": 0.99, "bytes": "40.0kB"},
    {"codec": "jpeg", "quality": 20, "scale": 0.5, "accuracy": 0.9, "bytes": "6.1kB"},
]


def changed_lines(before: str, after: str) -> list[str]:
    return [line for line in ndiff(before.splitlines(), after.splitlines()) if line[0] in "+-"]


def test_a_value_is_replaced_where_it_stands_and_its_comment_stays():
    text = 'near:\n  accuracy: 0.5   # a guess\n  detector: {kind: "yolox"}\n'
    assert with_values(text, {("near", "accuracy"): 0.79}) == text.replace("0.5 ", "0.79 ")


def test_a_key_that_is_missing_goes_behind_the_last_of_its_block():
    text = "near:\n    detector:\n        kind: yolox   # small\n\n# then the links\nlinks: {}\n"
    assert with_values(text, {("near", "accuracy"): 0.79}) == (
        "near:\n    detector:\n        kind: yolox   # small\n    accuracy: 0.79\n\n# then the links\nlinks: {}\n"
    )


def test_a_key_that_is_missing_goes_inside_the_braces():
    text = "near: {detector: {kind: yolox}, }   # all\n"
    assert with_values(text, {("near", "accuracy"): 0.79}) == (
        "near: {detector: {kind: yolox}, accuracy: 0.79, }   # all\n"
    )
    assert with_values("near: {}\n", {("near", "accuracy"): 1.0}) == "near: {accuracy: 1.0}\n"


def test_a_ladder_is_made_where_there_is_none_and_no_scheduler_either():
    text = "version: 1\nsinks:\n  - {kind: stdout}   # here"
    after = with_values(text, {LADDER: NEW_LADDER})
    assert after == (
        text + "\nscheduler:\n  ladder:\n"
        "    - {codec: jpeg, quality: 80, scale: 1.0, accuracy: 0.99, bytes: 40.0kB}\n"
        "    - {codec: jpeg, quality: 20, scale: 0.5, accuracy: 0.9, bytes: 6.1kB}\n"
    )


def test_a_ladder_written_in_lines_is_replaced_in_lines_whatever_stands_behind_it():
    text = (
        "scheduler:\n  ladder:\n  - codec: jpeg\n    quality: 50   # old\n  - {quality: 30}   # older\n\n"
        "  # about the policy\n  policy: deadline\n"
    )
    after = with_values(text, {LADDER: NEW_LADDER[:1]})
    assert after == (
        "scheduler:\n  ladder:\n  - {codec: jpeg, quality: 80, scale: 1.0, accuracy: 0.99, bytes: 40.0kB}\n\n"
        "  # about the policy\n  policy: deadline\n"
    )


def test_a_ladder_written_in_brackets_stays_in_brackets():
    text = "scheduler: {ladder: [{quality: 50}], policy: deadline}\n"
    after = with_values(text, {LADDER: NEW_LADDER[:1]})
    assert after == (
        "scheduler: {ladder: [{codec: jpeg, quality: 80, scale: 1.0, accuracy: 0.99, bytes: 40.0kB}], "
        "policy: deadline}\n"
    )


def test_line_ends_of_windows_stay():
    text = "near:\r\n  detector: {kind: yolox}\r\nscheduler:\r\n  ladder:\r\n    - {quality: 50}\r\n"
    after = with_values(text, {("near", "accuracy"): 0.79, LADDER: NEW_LADDER})
    assert after.count("\r\n") == after.count("\n") == 7
    assert yaml.safe_load(after)["scheduler"]["ladder"] == NEW_LADDER


@pytest.mark.parametrize(
    "text",
    [
        "a: &rung {quality: 50}\nscheduler:\n  ladder: [*rung, {quality: 30}]\n",
        "near: &near {accuracy: 0.5}\nold: *near\nscheduler: {ladder: [{}]}\n",
    ],
)
def test_a_value_that_stands_elsewhere_too_is_not_changed(text: str):
    with pytest.raises(EditError, match="anchors and aliases"):
        with_values(text, {(*LADDER, 0, "accuracy"): 0.9, ("near", "accuracy"): 0.7})


def test_a_place_that_is_no_mapping_is_refused():
    with pytest.raises(EditError, match=r"near\.accuracy has no place"):
        with_values("near: [1, 2]\n", {("near", "accuracy"): 0.7})


@pytest.mark.parametrize("path", PIPELINES, ids=lambda path: path.stem)
def test_in_every_recipe_only_the_lines_change_that_were_meant(path: Path):
    before = path.read_text()
    config = Document.read(path).validate(PipelineConfig)
    changes: dict[Any, Any] = {LADDER: NEW_LADDER}
    if config.near is not None:
        changes["near", "accuracy"] = 0.123
    after = with_values(before, changes)
    read = Document(after, directory=path.parent).validate(PipelineConfig)
    assert [rung.accuracy for rung in read.scheduler.ladder] == [0.99, 0.9]
    assert read.near is None or read.near.accuracy == 0.123
    own = sum(line.strip().startswith("- {codec:") for line in before.splitlines())
    # near's line, the two rungs, `scheduler:` and `ladder:` where they were not; near's old line and the old rungs
    assert len(changed_lines(before, after)) <= 2 + 2 + 2 + own + 4
    comments = [line for line in before.splitlines() if line.lstrip().startswith("#")]
    assert [line for line in after.splitlines() if line.lstrip().startswith("#")] == comments


def test_the_comment_of_the_last_time_is_replaced_and_no_other():
    text = "scheduler:\n  # mine\n  ladder: []\n"
    once = with_comment_above(text, LADDER, "calibrated yesterday", mark="calibrated ")
    assert once == "scheduler:\n  # mine\n  # calibrated yesterday\n  ladder: []\n"
    again = with_comment_above(once, LADDER, "calibrated today", mark="calibrated ")
    assert again == "scheduler:\n  # mine\n  # calibrated today\n  ladder: []\n"


def test_no_comment_is_put_inside_a_text():
    text = '{name: "two\n  lines", scheduler: {ladder: []}}\n'
    assert with_comment_above(text, LADDER, "calibrated today", mark="calibrated ") == text


def test_a_comment_on_the_first_line_stands_above_it():
    text = "scheduler: {ladder: []}\n"
    assert (
        with_comment_above(text, LADDER, "calibrated today", mark="calibrated ")
        == f"# calibrated today\n{text}"
    )


PADDING = st.sampled_from(["", " ", "   # words", "\n", "\n\n# more: words\n", "\r\n"])


@given(st.lists(PADDING, min_size=6, max_size=6), st.booleans(), st.booleans(), st.integers(1, 6))
def test_whatever_the_spacing_the_file_says_what_was_meant(
    pads: list[str], flow_near: bool, flow_ladder: bool, indent: int
):
    ind = " " * indent
    ends = [pad if pad.endswith("\n") else pad + "\n" for pad in pads]
    near = (
        f"near: {{detector: {{kind: a}}}}{ends[0]}"
        if flow_near
        else f"near:{ends[1]}{ind}detector: {{kind: a}}{ends[2]}"
    )
    ladder = (
        f"{ind}ladder: [{{quality: 50}}]{ends[3]}"
        if flow_ladder
        else f"{ind}ladder:{ends[4]}{ind}- quality: 50{ends[5]}"
    )
    text = near.replace("   # words\r", "") + f"scheduler:\n{ladder}tail: 1\n"
    after = with_values(text, {("near", "accuracy"): 0.7, (*LADDER, 0, "accuracy"): 0.9})
    assert yaml.safe_load(after) == {
        "near": {"detector": {"kind": "a"}, "accuracy": 0.7},
        "scheduler": {"ladder": [{"quality": 50, "accuracy": 0.9}]},
        "tail": 1,
    }
    assert after.count("#") == text.count("#")
