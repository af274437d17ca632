"""Every database a record store can live in."""

from itertools import count
from pathlib import Path

import pytest

from cloud.store.kinds import STORES
from tests.support.postgres import PostgresServer
from tests.support.stores import NewUrl

SERVICES = {"postgresql": "postgres"}
DATABASES = [
    pytest.param(kind.name, marks=[pytest.mark.service(SERVICES[kind.name])] if kind.name in SERVICES else [])
    for kind in STORES
]


@pytest.fixture(params=DATABASES)
def new_url(request: pytest.FixtureRequest, tmp_path: Path) -> NewUrl:
    """Where a store may be made, on every database."""
    if request.param == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres")
        return server.new_url
    assert request.param == "sqlite", (
        f"a new kind of store, {request.param}, keeps no promise yet: make it here"
    )
    numbers = count(1)
    return lambda: f"sqlite:///{tmp_path}/{next(numbers)}/records.db"
