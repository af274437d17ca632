"""Workers of one agent: one record store for its life, one model at a time; what may differ is said once."""

import logging
from dataclasses import replace

import pytest

from edge.far.accord import Accord
from protos.wire.session import ModelInfo
from tests.support.endpoints import WELCOME

NANO = ModelInfo(name="nano", sha256="ab" * 32, labels=(), input_width_px=320, input_height_px=320)
LARGE = replace(NANO, name="large", sha256="cd" * 32)


def test_every_worker_must_write_into_the_store_of_the_first() -> None:
    accord = Accord()
    assert accord.about_store(WELCOME) == ""
    accord.relies_on(WELCOME)
    said = accord.about_store(replace(WELCOME, store_id="another"))
    assert "store another, the first one in store" in said
    assert "one store.url" in said
    assert accord.about_store(WELCOME) == ""


def test_a_worker_that_is_not_used_decides_on_no_store() -> None:
    accord = Accord()
    assert accord.about_store(replace(WELCOME, store_id="of a worker that was refused")) == ""
    assert accord.about_store(WELCOME) == ""
    accord.relies_on(WELCOME)
    assert accord.about_store(WELCOME) == ""
    assert accord.about_store(replace(WELCOME, store_id="of a worker that was refused"))


def test_a_worker_whose_model_has_another_name_is_not_used_beside_the_others() -> None:
    accord = Accord()
    assert accord.about_model("cable", NANO) == ""
    accord.joined("cable", NANO)
    said = accord.about_model("lte", LARGE)
    assert "model large, link cable with nano: name the one you want in far.model" in said


def test_a_link_alone_may_come_back_with_another_model() -> None:
    accord = Accord()
    accord.joined("cable", NANO)
    assert accord.about_model("cable", LARGE) == "", "its own earlier model binds nobody"
    accord.joined("lte", NANO)
    accord.left("lte")
    assert accord.about_model("cable", LARGE) == ""


def test_another_file_of_the_same_model_is_taken_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    accord = Accord()
    accord.joined("cable", NANO)
    upgraded = replace(NANO, sha256="ef" * 32)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert accord.about_model("lte", upgraded) == ""
            accord.joined("lte", upgraded)
    (said,) = [r.message for r in caplog.records]
    assert said.startswith(
        "links lte and cable lead to different files of the model nano (efefefefefef and abab"
    )


def test_pictures_are_made_for_the_largest_input_at_hand() -> None:
    accord = Accord()
    assert accord.input_px == (0, 0)
    accord.joined("cable", NANO)
    accord.joined("lte", replace(NANO, input_width_px=640, input_height_px=384))
    assert accord.input_px == (640, 384)
    accord.left("lte")
    assert accord.input_px == (320, 320)
    accord.left("cable")
    assert accord.input_px == (320, 320), "the last one, while there is none"
