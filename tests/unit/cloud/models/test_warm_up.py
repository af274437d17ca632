"""What the first runs say of a model that fails at them."""

from collections.abc import Sequence

import pytest

from cloud.models.warm_up import warm_up
from pipelines.detectors.base import CancelToken
from pipelines.detectors.synthetic import SyntheticDetector
from pipelines.errors import ConfigError, Fatal
from pipelines.frame import Picture
from pipelines.result import Detections
from tests.support.workers import GatedDetector, clock_us


class NoBatches(GatedDetector):
    """Fails on several at once; if that `ends` it, on one as well from then on."""

    max_batch = 4
    batch_limit = "4 at most"

    def __init__(self, *, ends: bool) -> None:
        super().__init__()
        self._ends = ends

    def detect_batch(
        self, pictures: Sequence[Picture], cancel: CancelToken | None = None
    ) -> list[Detections]:
        error = Fatal("engine 0 was killed by SIGKILL")
        if self._ends:
            self.fail = error
        raise error


def _warmed(detector: NoBatches) -> None:
    warm_up(detector, model="person", runs=1, most=4, clock_us=clock_us)


def test_a_model_that_runs_one_picture_and_not_two_is_told_to_do_without_batches() -> None:
    with pytest.raises(
        ConfigError, match=r"models.person.batch.max is 4, but .* 2 empty .*; leave batch out"
    ):
        _warmed(NoBatches(ends=False))


@pytest.mark.parametrize("fail_every", [2, 3, 4, 5])
def test_a_model_that_fails_now_and_then_is_not_told_to_do_without_batches(fail_every: int) -> None:
    made = SyntheticDetector(delay_us=0, fail_every=fail_every)
    with pytest.raises(Fatal, match=f"as `fail_every: {fail_every}` wants") as caught:
        warm_up(made, model="person", runs=1, most=8, clock_us=clock_us)
    assert "leave batch out" not in str(caught.value)
    assert "fails now and then" in str(caught.value)


def test_an_engine_that_ends_while_batches_are_tried_is_no_fault_of_the_file() -> None:
    with pytest.raises(Fatal, match=r"fails on 2 empty pictures at once: engine 0 was killed") as caught:
        _warmed(NoBatches(ends=True))
    assert "leave batch out" not in str(caught.value)
