"""What every detector promises, whatever is inside and in whichever process it runs."""

import hashlib
import threading
import time
from itertools import permutations
from typing import Any

import numpy as np
import psutil
import pytest

from cloud.engine.engines import Engines
from cloud.engine.recipe import Recipe
from pipelines.detectors.base import BatchDetector, Cancelled, CancelToken, batch_fault
from pipelines.detectors.kinds import DETECTORS
from pipelines.errors import ConfigError, Rejected
from tests.support.models import COLOURS, write_centerface, write_yolox, write_yunet

WRITERS = {"centerface": write_centerface, "yolox": write_yolox, "yunet": write_yunet}
"""Of the kinds with a model file."""
EXTRA: dict[str, dict[str, object]] = {"yolox": {"labels": list(COLOURS), "decoded": False}}
ELSEWHERE = "@engine"
"""Marks a kind whose model lives in an engine process."""
KINDS = [*(kind.name for kind in DETECTORS), f"synthetic{ELSEWHERE}", f"yolox{ELSEWHERE}"]
SIZES = [(1, 1), (10, 4000), (4000, 10), (1, 333), (17, 33), (720, 1280)]


_started: list[Engines] = []


@pytest.fixture(autouse=True)
def _engines_end():
    yield
    while _started:
        _started.pop().stop()


def build(kind, folder, *, slow=False, **settings):
    """A detector made from a configuration as the YAML gives it; `slow`: a run takes about half a second."""
    kind, _, elsewhere = kind.partition("@")
    values: dict[str, object]
    if kind == "synthetic":
        values = {
            "delay": "500ms" if slow else "1ms",
            "labels": ["car", "face"],
            "boxes": 3,
            "input": "64x64",
        }
    else:
        path = folder / f"{kind}-{slow}.onnx"
        if not path.exists():
            WRITERS[kind](path, slow_layers=8 if slow else 0)
        values = {"model": str(path), "input": "384x384" if slow else "64x64", **EXTRA.get(kind, {})}
    block = DETECTORS[kind].config
    config: Any = block.model_validate({"kind": kind, **values, **settings})
    if not elsewhere:
        return DETECTORS.build(config)
    recipe = Recipe.of("far", config, instances=1, threads=1, warm_up=False)
    _started.append(Engines([recipe], processes=1, memory_bytes=8 << 20))
    _started[-1].start()
    return _started[-1].build("far")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


@pytest.fixture(params=KINDS)
def detector(request, folder):
    return build(request.param, folder)


@pytest.fixture
def picture():
    pixels = np.random.default_rng(1).integers(0, 60, (90, 160, 3), np.uint8)
    pixels[20:60, 40:100] = 255
    pixels[60:70, 120:140] = 200
    return pixels


def assert_sound(found, labels, shape):
    height, width = shape[:2]
    assert found.labels == labels
    assert found.boxes.dtype == np.float32
    assert found.scores.dtype == np.float32
    assert found.class_ids.dtype == np.uint16
    assert (found.boxes[:, :2] >= 0).all()
    assert (found.boxes[:, 2:] <= [width, height]).all()
    assert (found.boxes[:, :2] < found.boxes[:, 2:]).all()
    assert (np.diff(found.scores) <= 0).all()
    assert (found.scores <= 1).all()
    assert (found.scores > 0).all()
    assert (found.class_ids < len(labels)).all()


def test_it_says_what_it_is(detector):
    width, height = detector.input_size
    assert detector.name.endswith(f"@{width}x{height}")
    assert detector.labels
    assert len(bytes.fromhex(detector.sha256)) == 32


def test_boxes_lie_in_the_picture_best_score_first_with_known_classes(detector, picture):
    found = detector.detect(picture)
    assert len(found) > 0
    assert_sound(found, detector.labels, picture.shape)


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_a_picture_of_any_size_and_shape_is_answered(kind, size, folder):
    # so low that the padding of a letterbox, which lies outside the picture, would count as well
    detector = build(kind, folder, **({} if kind.startswith("synthetic") else {"min_score": 0.1}))
    white = np.full((*size, 3), 255, np.uint8)
    found = detector.detect(white)
    assert len(found) > 0
    assert_sound(found, detector.labels, white.shape)


@pytest.mark.parametrize("kind", KINDS)
def test_a_picture_with_nothing_in_it_gives_no_boxes_and_that_is_an_answer(kind, folder):
    detector = build(kind, folder, **({"boxes": 0} if kind.startswith("synthetic") else {}))
    found = detector.detect(np.zeros((90, 160, 3), np.uint8))
    assert len(found) == 0
    assert_sound(found, detector.labels, (90, 160, 3))


def test_two_runs_on_equal_pixels_agree(detector, picture):
    assert detector.detect(picture) == detector.detect(picture.copy())


def test_a_view_into_a_larger_picture_is_as_good_as_a_copy(detector, picture):
    around = np.zeros((120, 320, 3), np.uint8)
    around[10:100, ::2] = picture
    assert detector.detect(around[10:100, ::2]) == detector.detect(picture)


def test_the_picture_is_only_read(detector, picture):
    before = picture.copy()
    picture.setflags(write=False)
    detector.detect(picture)
    assert np.array_equal(picture, before)


def test_two_detectors_of_one_configuration_have_one_fingerprint(detector, folder):
    kind = detector.name.split("@")[0]
    assert build(kind, folder).sha256 == detector.sha256


def test_a_run_cancelled_before_it_starts_never_runs(detector, picture):
    token = CancelToken()
    token.cancel()
    with pytest.raises(Cancelled):
        detector.detect(picture, token)
    assert len(detector.detect(picture, CancelToken())) > 0


def test_cancelling_after_the_run_changes_nothing(detector, picture):
    token = CancelToken()
    found = detector.detect(picture, token)
    token.cancel()
    assert detector.detect(picture) == found


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_cancelled_from_another_thread_ends_early_and_the_next_one_is_whole(kind, folder, picture):
    detector = build(kind, folder, slow=True)
    started = time.monotonic()
    whole = detector.detect(picture)
    whole_s = time.monotonic() - started
    token = CancelToken()
    timer = threading.Timer(whole_s / 10, token.cancel)
    timer.start()
    started = time.monotonic()
    with pytest.raises(Cancelled):
        detector.detect(picture, token)
    cancelled_s = time.monotonic() - started
    timer.join()
    assert cancelled_s < whole_s * 0.7
    assert detector.detect(picture) == whole


@pytest.mark.parametrize(
    "wrong", [np.zeros((40, 40), np.uint8), np.zeros((40, 40, 3), np.float32), np.zeros((0, 40, 3), np.uint8)]
)
def test_what_is_no_bgr_picture_is_rejected_and_the_next_one_is_answered(detector, wrong, picture):
    with pytest.raises(Rejected):
        detector.detect(wrong)
    assert len(detector.detect(picture)) > 0


# -- several pictures in one run --------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 5])
def test_pictures_that_run_together_get_the_boxes_they_get_alone_whatever_their_sizes(detector, count):
    dice = np.random.default_rng(count)
    pictures = []
    for n in range(count):
        pixels = dice.integers(0, 60, (60 + 40 * n, 200 - 30 * n, 3), np.uint8)
        pixels[10 : 30 + 10 * n, 20:60] = 255
        pictures.append(pixels)
    alone = [detector.detect(picture) for picture in pictures]
    assert isinstance(detector, BatchDetector)
    assert detector.max_batch >= 5
    together = detector.detect_batch(pictures)
    assert [len(found) for found in together] == [len(found) for found in alone]
    for one, other in zip(together, alone, strict=True):
        assert np.allclose(one.boxes, other.boxes, atol=0.01)
        assert np.allclose(one.scores, other.scores, atol=1e-4)
        assert np.array_equal(one.class_ids, other.class_ids)
        assert one.labels == other.labels


def test_one_that_is_no_picture_is_rejected_with_all_that_run_with_it(detector, picture):
    with pytest.raises(Rejected):
        detector.detect_batch([picture, np.zeros((40, 40), np.uint8)])
    assert detector.detect_batch([picture])[0] == detector.detect(picture)


def test_a_file_whose_batch_is_fixed_says_so_and_names_the_dimension(tmp_path):
    path = write_yolox(tmp_path / "frozen.onnx", frozen=(64, 64))
    frozen = build("yolox", tmp_path, model=str(path))
    assert frozen.max_batch == 1
    assert batch_fault(frozen, 1) is None
    fault = batch_fault(frozen, 4)
    assert fault is not None
    assert "4 pictures at once" in fault
    assert "images float32 [1, 3, 64, 64]: its first dimension, the batch, is fixed at 1" in fault
    assert "leave batch out" in fault


# -- of the kinds with a model file -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", WRITERS)
def test_only_the_best_boxes_are_kept_when_there_are_too_many(kind, folder):
    white = np.full((64, 64, 3), 255, np.uint8)
    every = build(kind, folder).detect(white)
    assert len(every) > 2
    few = build(kind, folder, max_detections=2).detect(white)
    assert few.scores.tolist() == every.scores[:2].tolist()


@pytest.mark.parametrize("kind", WRITERS)
def test_a_higher_least_score_only_takes_boxes_away(kind, folder, picture):
    scores = build(kind, folder, min_score=0.3).detect(picture).scores
    strict = build(kind, folder, min_score=0.9).detect(picture).scores
    assert 0 < len(strict) < len(scores)
    assert (strict >= 0.9).all()


@pytest.mark.parametrize("kind", [*WRITERS, f"yolox{ELSEWHERE}"])
def test_the_file_must_be_the_one_that_was_meant(kind, folder):
    build(kind, folder)
    file = folder / f"{kind.partition('@')[0]}-False.onnx"
    right = hashlib.sha256(file.read_bytes()).hexdigest()
    assert build(kind, folder, sha256=right).sha256 == right
    with pytest.raises(ConfigError) as error:
        build(kind, folder, sha256="0" * 64)
    assert right in str(error.value)
    assert "0" * 64 in str(error.value)


@pytest.mark.parametrize("kind", WRITERS)
def test_a_run_uses_as_many_threads_as_it_was_given(kind, folder):
    process = psutil.Process()
    before = process.num_threads()
    alone = build(kind, folder, threads=1)
    assert process.num_threads() == before
    three = build(kind, folder, threads=3)
    assert process.num_threads() == before + 2
    white = np.full((64, 64, 3), 255, np.uint8)
    assert three.detect(white) == alone.detect(white)


@pytest.mark.parametrize(("kind", "other"), list(permutations(WRITERS, 2)))
def test_the_model_of_another_kind_is_refused_with_the_kind_to_write(kind, other, tmp_path):
    path = WRITERS[other](tmp_path / "model.onnx")
    with pytest.raises(ConfigError, match=rf"no model for kind: {kind}.*write kind: {other}"):
        build(kind, tmp_path, model=str(path))
