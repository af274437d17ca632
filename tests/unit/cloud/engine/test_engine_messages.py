"""What front and engine say to each other crosses as it was, and what is no such thing is refused."""

import numpy as np
import pytest

from cloud.engine.messages import (
    Loaded,
    MalformedMessageError,
    Placed,
    pack_error,
    pack_found,
    pack_loaded,
    pack_places,
    read_cancel,
    read_error,
    read_found,
    read_loaded,
    read_places,
)
from cloud.engine.recipe import EngineStart, Recipe, SlotStart, pack_start, read_start
from pipelines.detectors.base import Cancelled
from pipelines.errors import ConfigError, Fatal, Rejected, Retryable
from pipelines.result import Detections


def detections(count, labels=("a", "b")):
    dice = np.random.default_rng(count)
    return Detections(
        dice.random((count, 4), np.float32),
        dice.random(count, np.float32),
        dice.integers(0, 2, count).astype(np.uint16),
        labels,
    )


@pytest.mark.parametrize("counts", [[0], [1], [1000], [3, 0, 1, 5]], ids=str)
def test_results_come_back_as_they_were_one_for_each_picture(counts):
    found = [detections(count) for count in counts]
    again = read_found(pack_found(found), ("a", "b"), pictures=len(counts))
    assert again == found
    assert [one.labels for one in again] == [("a", "b")] * len(counts)
    assert all(one.boxes.flags.aligned and one.scores.flags.aligned for one in again)


@pytest.mark.parametrize("pictures", [1, 3])
def test_too_few_and_too_many_results_are_refused(pictures):
    body = pack_found([detections(2), detections(3)])
    with pytest.raises(MalformedMessageError):
        read_found(body, (), pictures=pictures)


def test_results_cut_anywhere_are_refused():
    body = pack_found([detections(2), detections(1)])
    for length in range(len(body)):
        with pytest.raises(MalformedMessageError):
            read_found(body[:length], (), pictures=2)


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (Rejected("too odd"), Rejected, "too odd"),
        (Cancelled("over"), Cancelled, "over"),
        (ConfigError("no such file"), ConfigError, "no such file"),
        (Fatal("broke"), Fatal, "broke"),
        (Retryable("later"), Fatal, "later"),
        (ZeroDivisionError("nobody foresaw"), Fatal, "ZeroDivisionError: nobody foresaw"),
    ],
)
def test_an_error_crosses_as_what_the_front_must_do_about_it(error, kind, words):
    again = read_error(pack_error(error))
    assert type(again) is kind
    assert str(again) == words


def test_what_a_detector_says_of_itself_crosses():
    loaded = Loaded(
        name="x@8x8", labels=("ä", "b"), input_size=(8, 8), sha256="ab" * 32, max_batch=4, batch_limit="so"
    )
    assert read_loaded(pack_loaded(loaded)) == loaded


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b'{"name": 1, "labels": 2}'])
def test_what_no_detector_would_say_of_itself_is_refused(body):
    with pytest.raises(MalformedMessageError):
        read_loaded(body)
    with pytest.raises(MalformedMessageError):
        read_start(body)
    with pytest.raises(MalformedMessageError):
        read_cancel(body)


def test_the_start_of_an_engine_crosses():
    recipe = Recipe(model="m", maker="a.b:c", settings={"kind": "synthetic"}, warm_up=False)
    start = EngineStart(
        engine=1,
        parent=2,
        threads=3,
        log_level=10,
        slots=(SlotStart(recipe=recipe, channel=4, memory=5, memory_bytes=6),),
    )
    assert read_start(pack_start(start)) == start


@pytest.mark.parametrize("body", [b"", b"short", pack_places([Placed("|u1", (1,), 0)])[:-1], b"\xff" * 32])
def test_a_run_that_names_no_pictures_is_refused(body):
    with pytest.raises(MalformedMessageError):
        read_places(body)
