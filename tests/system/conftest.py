"""A site that runs while its test does."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.sites import Site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    try:
        yield made.wait()
    finally:
        made.close()
