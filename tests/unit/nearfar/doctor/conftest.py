"""A pipeline to be examined."""

from pathlib import Path

import pytest

from tests.support.patients import Patient


@pytest.fixture
def patient(tmp_path: Path) -> Patient:
    return Patient(tmp_path)
