"""What an answer is worth: counted boxes become F1, and a file that cannot be right is refused."""

import json

import pytest

from edge.config.pipeline import PipelineConfig
from edge.scheduling.rung import Rung
from nearfar.simulation.accuracies import (
    AccuraciesFile,
    Seen,
    SeenAtRung,
    constant_accuracies,
    read_accuracies,
    scored,
    write_accuracies,
)
from nearfar.simulation.recipe import Assumed, set_up
from pipelines.errors import ConfigError
from tests.support.simulated import LADDER, MS, link

RUNG = {"quality": 50, "scale": 1.0, "size_bytes": (9000, 8000), "encode_us": (2000,)}
FILE = AccuraciesFile(
    reference=(3, 1),
    near=Seen(true=(1, 1), false=(0, 2), run_us=(30_000, 31_000)),
    confidence=(0.4, 0.9),
    rungs=(SeenAtRung(true=(3, 1), false=(0, 0), run_us=(18_000,), **RUNG),),
)


def recipe(**scheduler: object) -> PipelineConfig:
    return PipelineConfig.model_validate(
        {
            "version": 1,
            "streams": {"a": {"source": {"kind": "synthetic", "fps": 10}}},
            "near": {"detector": {"kind": "synthetic"}, "accuracy": 0.7},
            "links": {"lte": {"url": "zmq://127.0.0.1:7440"}},
            "scheduler": scheduler,
        },
        context={"file": "test"},
    )


def test_f1_is_over_all_boxes_of_all_frames():
    made = scored(FILE)
    assert made.near.f1 == pytest.approx(2 * 2 / (2 * 2 + 2 + 2))
    assert made.rungs[0].f1 == 1.0
    assert made.missed.f1 == 0.0
    assert made.ladder[0].accuracy == 1.0


def test_with_constants_f1_is_the_mean_accuracy():
    made = constant_accuracies(LADDER, near=0.6, pixels=90_000)
    assert made.near.f1 == pytest.approx(0.6)
    assert [scores.f1 for scores in made.rungs] == pytest.approx([rung.accuracy for rung in LADDER])
    sizes = made.size_bytes[0]
    prior = LADDER[0].prior_bytes(90_000)
    assert min(sizes) == pytest.approx(0.8 * prior, rel=0.01)
    assert sum(sizes) / len(sizes) == pytest.approx(prior, rel=0.01)


def test_a_file_that_was_written_reads_back(tmp_path):
    path = tmp_path / "seen.json"
    write_accuracies(FILE, path)
    assert read_accuracies(path) == scored(FILE)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"near": {"true": [1], "false": [0]}}, "near.true has 1 values, the reference 2 frames"),
        ({"near": {"true": [4, 1], "false": [0, 0]}}, "more hits than the reference has boxes"),
        ({"format": "nearfar accuracies 9"}, "format is"),
        ({"confidence": [0.5]}, "confidence has 1 values"),
        ({"rungs": []}, "at least 1 item"),
        ({"weather": "fine"}, "Extra inputs"),
    ],
)
def test_a_file_that_cannot_be_right_is_refused_with_words(tmp_path, change, words):
    path = tmp_path / "seen.json"
    whole = FILE.model_dump(mode="json") | change
    path.write_text(json.dumps(whole))
    with pytest.raises(ConfigError) as refused:
        read_accuracies(path)
    assert words in str(refused.value)


def test_what_was_measured_stands_above_the_recipe():
    setup = set_up(recipe(), link(), assumed=Assumed(frames=10), accuracies=scored(FILE))
    assert setup.settings.near_accuracy == 0.5
    assert setup.settings.ladder == scored(FILE).ladder
    assert setup.scenario.near.median_us == 31_000
    assert setup.scenario.worker.median_us == 18_000
    assert setup.scenario.fps == 10
    assert setup.settings.links[0].name == "lte"


def test_without_measurements_the_recipe_speaks():
    rungs = [{"quality": 70, "scale": 0.5, "accuracy": 0.9}]
    setup = set_up(recipe(ladder=rungs), link(), assumed=Assumed(near_us=25 * MS))
    assert setup.settings.ladder == (Rung(codec="jpeg", quality=70, scale=0.5, accuracy=0.9),)
    assert setup.settings.near_accuracy == 0.7
    assert setup.scenario.near.median_us == 25 * MS


def test_a_rung_that_was_not_measured_is_named_with_those_that_were():
    rungs = [{"quality": 70, "scale": 0.5}]
    with pytest.raises(ConfigError, match=r"quality 70 at scale 0\.5") as refused:
        set_up(recipe(ladder=rungs), link(), assumed=Assumed(), accuracies=scored(FILE))
    assert "quality 50 scale 1" in str(refused.value)


def test_a_recipe_without_near_runs_what_needs_none():
    config = recipe().model_copy(update={"near": None})
    setup = set_up(config, link(), assumed=Assumed())
    assert setup.policies == ("deadline", "threshold", "far_only")
    assert setup.settings.near_accuracy is None
