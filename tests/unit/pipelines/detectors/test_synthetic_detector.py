"""The detector without a model: it breaks, costs and is told apart as its configuration says."""

import time

import numpy as np
import pytest

from pipelines.detectors.synthetic import SyntheticDetector
from pipelines.errors import Fatal


@pytest.fixture
def picture():
    return np.full((90, 160, 3), 60, np.uint8)


def test_a_synthetic_batch_costs_what_its_configuration_says(picture):
    detector = SyntheticDetector(delay_us=60_000, per_frame_us=5_000)
    started = time.monotonic()
    assert len(detector.detect_batch([picture] * 4)) == 4
    assert time.monotonic() - started >= 0.075


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
        SyntheticDetector(per_frame_us=1),
    ]
    assert len({plain.sha256, *(o.sha256 for o in others)}) == 7
