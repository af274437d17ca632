"""Every database a record store can live in."""

from itertools import count
from pathlib import Path

import pytest

from tests.support.postgres import PostgresServer
from tests.support.stores import NewUrl

DATABASES = ["sqlite", pytest.param("postgres", marks=pytest.mark.service("postgres"))]


@pytest.fixture(params=DATABASES)
def new_url(request: pytest.FixtureRequest, tmp_path: Path) -> NewUrl:
    """Where a store may be made, on every database."""
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        return server.new_url
    numbers = count(1)
    return lambda: f"sqlite:///{tmp_path}/{next(numbers)}/records.db"
