"""A worker whose record store is on a server that is not up yet."""

from typing import cast

import pytest

from cloud import worker
from cloud.store.records import RecordStore
from pipelines.errors import Retryable


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Refuses twice, then opens; the URLs it was asked for."""
    asked: list[str] = []

    def open_store(url: str) -> RecordStore:
        asked.append(url)
        if len(asked) < 3:
            raise Retryable("the server is starting up")
        return cast("RecordStore", "opened")

    monkeypatch.setattr(worker, "open_store", open_store)
    monkeypatch.setattr(worker, "_SERVER_STEP_S", 0.0)
    return asked


def test_a_server_that_is_not_up_yet_is_waited_for_and_said_once(
    refusing: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    assert worker.record_store_at("postgresql+psycopg://h/db") == cast("RecordStore", "opened")
    assert len(refusing) == 3
    assert caplog.text.count("waiting up to 30 s") == 1


def test_a_server_that_does_not_come_ends_the_wait(
    refusing: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "_SERVER_WITHIN_S", -1.0)
    with pytest.raises(Retryable, match="starting up"):
        worker.record_store_at("postgresql+psycopg://h/db")


def test_a_file_is_not_waited_for(refusing: list[str]) -> None:
    with pytest.raises(Retryable, match="starting up"):
        worker.record_store_at("sqlite:////var/lib/records.db")
    assert len(refusing) == 1
