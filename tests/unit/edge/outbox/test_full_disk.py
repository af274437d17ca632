"""Room on a disk that has none: in small pieces, each of which gives back what it took before the next is written."""

from edge.outbox.full_disk import make_room
from edge.outbox.memory_outbox import MemoryOutbox
from edge.outbox.store import Changes
from tests.support.outboxes import entry


class Diary(MemoryOutbox):
    def __init__(self) -> None:
        super().__init__()
        self.done: list[str] = []

    def commit(self, changes: Changes, now_us: int) -> None:
        super().commit(changes, now_us)
        self.done.append(f"removed {len(changes.acknowledged)}" if changes.acknowledged else "wrote")

    def tidy(self) -> None:
        super().tidy()
        self.done.append("tidied")


def test_every_piece_gives_its_room_back_before_the_next():
    store = Diary()
    store.open(0)
    store.commit(Changes(entries=[entry(n) for n in range(1, 6)]), 0)
    known = {stored.number for stored in store.peek(limit=9, max_bytes=1 << 20)}
    del store.done[:]
    make_room(
        store,
        None,
        acknowledged=known,
        payloads_acknowledged=set(),
        payloads_refused=set(),
        most=2,
        now_us=0,
    )
    assert store.done == ["removed 2", "tidied", "removed 2", "tidied", "removed 1", "tidied"]
    assert known == set()
