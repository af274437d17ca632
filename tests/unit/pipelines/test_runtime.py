"""What every main does once: nothing that was loaded is looked through for garbage while a deadline passes."""

import gc
from collections.abc import Iterator

import pytest

from pipelines import runtime


@pytest.fixture
def unfrozen() -> Iterator[None]:
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("unfrozen")
def test_what_was_there_is_left_out_of_every_later_collection_and_what_comes_after_is_not():
    loaded: list[list[object]] = [[] for _ in range(1000)]
    runtime.settle()
    assert gc.get_freeze_count() > len(loaded)
    assert len(gc.get_objects()) < len(loaded)
    ring: list[object] = []
    ring.append(ring)
    del ring
    assert gc.collect() >= 1
