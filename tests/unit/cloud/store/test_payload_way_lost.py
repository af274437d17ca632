"""A worker whose files are gone or damaged acknowledges no picture it does not hold: the gateway keeps it and sends it."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cloud.store.payloads.folder import content_hash
from edge.outbox.payload import PayloadEntry
from pipelines.errors import Retryable
from tests.support.outboxes import payload
from tests.support.payload_house import House


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(tmp_path)
    yield made
    made.close()


def keep_again(house: House, first: PayloadEntry) -> None:
    """Another frame of the same content."""
    shown = replace(first.shown, key=(*first.shown.key[:2], 2))
    house.keep(PayloadEntry(shown=shown, age_us=0, data=first.data))


@pytest.mark.parametrize("left", [None, b"7 bytes"])
def test_a_picture_whose_file_was_lost_meanwhile_goes_up_again_whole(
    house: House, left: bytes | None
) -> None:
    first = payload(1, size=50_000)
    house.keep(first)
    house.settle()
    path = house.payloads.folder.path(content_hash(first.data))
    path.unlink()
    if left is not None:
        path.write_bytes(left)
    keep_again(house, first)
    house.settle()
    assert house.in_cloud(1) == house.in_cloud(2) == first.data
    assert house.piece_bytes == 100_000


def test_while_the_payload_folder_is_gone_no_picture_is_acknowledged(house: House) -> None:
    first = payload(1, size=5000)
    house.keep(first)
    house.settle()
    folder = house.payloads.folder.root
    away = folder.rename(folder.with_name("unmounted"))
    keep_again(house, first)
    house.connect()
    house.turn(100_000)
    with pytest.raises(Retryable, match="mounted"):
        house.arrive_up()
    assert house.down == []
    assert house.outbox.ledger().payloads_pending == 1
    away.rename(folder)
    house.settle()
    assert house.in_cloud(2) == first.data
