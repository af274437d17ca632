"""A worker whose SQLite store is full or damaged: answers go on, acks stop, and resume."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from protos.wire.bulk import Ack
from protos.wire.live import Result
from tests.support.eventually import eventually
from tests.support.rigs import Rig, rig_in


def acked(rig: Rig) -> set[int]:
    return {seq for ack in rig.peer.all(Ack) for r in ack.records for seq in range(r.first, r.last + 1)}


def stored(rig: Rig) -> list[int]:
    return [identity.seq for identity in rig.store.identities()]


def closed(rig: Rig, path: Path) -> bool:
    """Whether all is in the file now: a connection that was in use keeps a log beside it, which would heal the
    damage."""
    rig.store.database.close()
    return not path.with_name(f"{path.name}-wal").exists()


def fill_the_disk(rig: Rig) -> Callable[[], None]:
    """SQLite itself says it is full; what is returned gives the space back."""
    engine = rig.store.database.engine
    with engine.connect() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()

    def bound(connection: Any, _: object) -> None:
        connection.execute(f"PRAGMA max_page_count={pages}")

    event.listen(engine, "connect", bound)
    engine.dispose()

    def give_back() -> None:
        event.remove(engine, "connect", bound)
        engine.dispose()

    return give_back


def test_a_full_disk_stops_the_acks_and_no_answer_and_all_is_acked_once_there_is_room(tmp_path: Path) -> None:
    with rig_in(tmp_path) as rig:
        rig.detector.boxes = 300  # rows that need pages of their own
        rig.welcome()
        rig.frame(1)
        eventually(lambda: acked(rig) == {1}, what="the ack of frame 1")
        give_back = fill_the_disk(rig)
        for seq in range(2, 12):
            rig.frame(seq)
            rig.peer.wait(Result, seq)
        eventually(lambda: "full" in rig.service.writer.trouble, what="words about it")
        (words,) = rig.service.not_ready()
        assert "full" in words
        before = acked(rig)
        assert before == set(stored(rig)), "nothing is acked that is not committed"
        assert before < set(range(1, 12))
        give_back()
        eventually(lambda: acked(rig) == set(range(1, 12)), 10.0, "the other acks")
        assert stored(rig) == list(range(1, 12))
        assert rig.service.not_ready() == []


@pytest.mark.parametrize("moved", [False, True], ids=["damaged", "moved away"])
def test_a_store_lost_under_a_running_worker_is_made_anew_and_acks_mean_what_is_there_now(
    tmp_path: Path, moved: bool
) -> None:
    path = tmp_path / "records.db"
    with rig_in(tmp_path) as rig:
        rig.welcome()
        rig.frame(1)
        eventually(lambda: acked(rig) == {1}, what="the ack of frame 1")
        if moved:
            path.rename(tmp_path / "elsewhere.db")
        else:
            eventually(lambda: closed(rig, path), what="nobody to have the file open")
            size_bytes = path.stat().st_size
            with path.open("r+b") as file:
                file.seek(100)
                file.write(b"\xa5" * (size_bytes - 100))
        rig.frame(2)
        rig.peer.wait(Result, 2)
        eventually(lambda: acked(rig) == {1, 2}, 10.0, "the ack of frame 2")
        assert stored(rig) == [2]
        assert path.with_name("records.db.damaged-1").exists() is not moved
        eventually(lambda: not rig.service.not_ready(), what="a worker that is ready again")
