"""What every detector promises, whatever is inside."""

import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

from pipelines.detectors.base import Cancelled, CancelToken
from pipelines.detectors.centerface import CenterFace
from pipelines.detectors.synthetic import SyntheticDetector
from pipelines.errors import Fatal, Rejected
from tests.support.models import write_centerface

KINDS = ["centerface", "synthetic"]


def build(kind, folder, *, slow=False):
    """A detector made from a configuration as the YAML gives it; `slow`: a run takes about half a second."""
    if kind == "synthetic":
        return SyntheticDetector.from_config(
            SimpleNamespace(
                delay=500_000 if slow else 1_000,
                labels=["car", "face"],
                boxes=3,
                input=(64, 64),
                fail_every=None,
            )
        )
    path = folder / f"{kind}-{slow}.onnx"
    if not path.exists():
        write_centerface(path, slow_layers=20 if slow else 0)
    return CenterFace.from_config(
        SimpleNamespace(
            model=path,
            sha256=None,
            input=(384, 384) if slow else (64, 64),
            min_score=0.5,
            iou=0.3,
            threads=1,
            fit="stretch",
        )
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


@pytest.fixture(params=KINDS)
def detector(request, folder):
    return build(request.param, folder)


@pytest.fixture
def picture():
    pixels = np.random.default_rng(1).integers(0, 60, (90, 160, 3), np.uint8)
    pixels[30:50, 40:70] = 255
    pixels[60:70, 120:140] = 200
    return pixels


def test_it_says_what_it_is(detector):
    width, height = detector.input_size
    assert detector.name.endswith(f"@{width}x{height}")
    assert detector.labels
    assert len(bytes.fromhex(detector.sha256)) == 32


def test_boxes_lie_in_the_picture_best_score_first_with_known_classes(detector, picture):
    found = detector.detect(picture)
    assert len(found) > 0
    assert found.labels == detector.labels
    assert found.boxes.dtype == np.float32
    assert found.scores.dtype == np.float32
    assert found.class_ids.dtype == np.uint16
    assert (found.boxes[:, :2] >= 0).all()
    assert (found.boxes[:, 2:] <= [160, 90]).all()
    assert (found.boxes[:, :2] < found.boxes[:, 2:]).all()
    assert (np.diff(found.scores) <= 0).all()
    assert (found.scores <= 1).all()
    assert (found.class_ids < len(detector.labels)).all()


def test_two_runs_on_equal_pixels_agree(detector, picture):
    assert detector.detect(picture) == detector.detect(picture.copy())


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


def test_a_synthetic_engine_breaks_every_nth_run_and_only_then(picture):
    detector = SyntheticDetector(delay_us=0, fail_every=3)
    outcomes = []
    for _ in range(7):
        try:
            detector.detect(picture)
            outcomes.append("ok")
        except Fatal:
            outcomes.append("broke")
    assert outcomes == ["ok", "ok", "broke", "ok", "ok", "broke", "ok"]


def test_another_configuration_has_another_fingerprint():
    plain = SyntheticDetector()
    others = [
        SyntheticDetector(delay_us=1),
        SyntheticDetector(labels=("a",)),
        SyntheticDetector(boxes=2),
        SyntheticDetector(input_size=(32, 32)),
        SyntheticDetector(fail_every=2),
    ]
    assert len({plain.sha256, *(o.sha256 for o in others)}) == 6
