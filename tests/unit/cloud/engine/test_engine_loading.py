"""Engine processes that load, do not load, load another file, or cannot even be started: said as what it is."""

import errno

import pytest

from cloud.engine.recipe import Recipe
from pipelines.errors import ConfigError, Fatal
from tests.support.engine_detectors import BREAK, engines, picture
from tests.support.eventually import eventually

MAKER = "tests.support.engine_detectors:obedient"
WITHIN_S = 60.0


def test_what_makes_loading_fail_is_told_as_it_is(tmp_path):
    with engines(Recipe(model="m", maker=MAKER, settings={"file": str(tmp_path / "none")})) as made:
        with pytest.raises(Fatal, match="FileNotFoundError"):
            made.build("m")
        (tmp_path / "none").write_text("there now")
        assert len(made.build("m").detect(picture())) == 1


def test_a_model_the_configuration_gets_wrong_is_a_configuration_error(tmp_path):
    recipe = Recipe(
        model="m",
        maker="cloud.engine.recipe:of_a_kind",
        settings={"kind": "yolox", "model": str(tmp_path / "none.onnx"), "input": "64x64"},
    )
    with engines(recipe) as made, pytest.raises(ConfigError, match=r"none\.onnx"):
        made.build("m")


def test_another_file_in_the_place_of_the_model_is_not_taken_until_it_is_put_back(tmp_path):
    file = tmp_path / "model"
    file.write_text("one")
    with engines(Recipe(model="m", maker=MAKER, settings={"file": str(file)})) as made:
        detector = made.build("m")
        file.write_text("two")
        with pytest.raises(Fatal):
            detector.detect(picture(BREAK))
        with pytest.raises(ConfigError, match="put that file back"):
            made.build("m")
        with pytest.raises(ConfigError, match="put that file back"):
            made.build("m")
        file.write_text("one")
        assert len(made.build("m").detect(picture())) == 1


def test_a_model_that_cannot_be_loaded_again_is_told_as_the_trouble_of_its_engine_until_it_can(tmp_path):
    file = tmp_path / "model"
    file.write_text("one")
    with engines(Recipe(model="m", maker=MAKER, settings={"file": str(file)})) as made:
        detector = made.build("m")
        eventually(lambda: not made.trouble(), WITHIN_S)
        file.write_text("two")
        with pytest.raises(Fatal):
            detector.detect(picture(BREAK))
        with pytest.raises(ConfigError):
            made.build("m")
        (words,) = made.trouble()
        assert words.startswith("engine 0 cannot load model m: models.m: the file has sha256")
        file.write_text("one")
        made.build("m")
        assert made.trouble() == []


def test_an_engine_that_crashes_while_it_loads_is_told_and_tried_again_ever_later(tmp_path):
    file = tmp_path / "cursed"
    file.touch()
    with engines(Recipe(model="m", maker=MAKER, settings={"die_while": str(file)})) as made:
        with pytest.raises(Fatal, match=r"engine 0 .* while it was loading model m"):
            made.build("m")
        eventually(lambda: made.states()[0].restarts >= 2, WITHIN_S, "two more starts")
        assert "times in a row" in eventually(lambda: " ".join(made.trouble()))
        file.unlink()

        def built():
            try:
                return made.build("m")
            except Fatal:
                return None

        assert len(eventually(built, WITHIN_S).detect(picture())) == 1


def test_an_engine_that_never_finishes_loading_is_ended_and_told(tmp_path):
    file = tmp_path / "slow"
    file.touch()
    recipe = Recipe(model="m", maker=MAKER, settings={"hang_while": str(file)})
    with (
        engines(recipe, start_within_us=300_000) as made,
        pytest.raises(Fatal, match="did not load model m within 300ms"),
    ):
        made.build("m")


def test_an_engine_that_cannot_even_be_started_is_told_with_the_reason(monkeypatch):
    def none(*_: object) -> None:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr("cloud.engine.process._spawn", none)
    with engines() as made:
        with pytest.raises(
            Fatal,
            match=r"engine 0 cannot be started.*Resource temporarily unavailable: raise its limit of processes",
        ):
            made.build("synthetic")
        monkeypatch.undo()
        eventually(lambda: not made.trouble(), WITHIN_S)
        assert len(made.build("synthetic").detect(picture())) == 1
