"""The writer of pictures: keeps what it can, acknowledges only what is kept, and is never waited for."""

from collections.abc import Iterator, Sequence
from threading import Event

import pytest

from cloud.store.payloads.store import Payload
from cloud.store.payloads.writer import Arrival, PayloadWriter
from pipelines.errors import Rejected, Retryable
from pipelines.frame import Encoding, FrameId
from tests.support.eventually import eventually

ENCODING = Encoding(codec="jpeg", quality=50, width_px=4, height_px=4)


def payload(seq: int, data: bytes = b"x" * 10) -> Payload:
    return Payload(id=FrameId("gw", bytes(16), "door", seq), encoding=ENCODING, data=data)


class ScriptedPayloads:
    """Refuses while `broken`; never takes seq 13, and fails on 666 for no reason."""

    def __init__(self) -> None:
        self.broken = Event()
        self.taken: list[int] = []

    def commit(self, arrivals: Sequence[Payload], *, now_unix_us: int) -> None:
        seqs = [p.id.seq for p in arrivals]
        if self.broken.is_set():
            raise Retryable("the disk is full")
        if 13 in seqs:
            raise Rejected("13 cannot be stored")
        if 666 in seqs:
            raise MemoryError
        self.taken += seqs


class Bench:
    def __init__(self) -> None:
        self.store = ScriptedPayloads()
        self.acked: list[int] = []
        self.writer = PayloadWriter(
            self.store, acknowledge=self._acknowledge, unix_us=lambda: 1, max_pending_bytes=1000
        )

    def _acknowledge(self, arrivals: Sequence[Arrival]) -> None:
        self.acked += [a.payload.id.seq for a in arrivals]


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.writer.halt()


def test_only_what_is_kept_and_has_somebody_to_tell_is_acknowledged(bench: Bench) -> None:
    bench.writer.submit(payload(1), "agent")
    bench.writer.submit(payload(2))
    bench.writer.start()
    assert bench.writer.flush(5_000_000)
    assert (bench.store.taken, bench.acked) == ([1, 2], [1])


def test_while_the_disk_refuses_nothing_is_acknowledged_and_all_is_once_it_can(bench: Bench) -> None:
    bench.store.broken.set()
    bench.writer.start()
    for seq in (1, 2, 3):
        assert bench.writer.submit(payload(seq), "agent")
    eventually(lambda: "full" in bench.writer.trouble, what="words about it")
    assert bench.acked == []
    bench.store.broken.clear()
    assert bench.writer.flush(5_000_000)
    assert sorted(bench.acked) == [1, 2, 3]
    assert bench.writer.trouble == ""


def test_one_picture_that_can_never_be_kept_holds_up_no_other(bench: Bench) -> None:
    for seq in (12, 13, 14, 666, 15):
        bench.writer.submit(payload(seq), "agent")
    bench.writer.start()
    assert bench.writer.flush(5_000_000)
    assert sorted(bench.acked) == [12, 14, 15]
    assert bench.writer.refused == 2


def test_what_waits_is_bounded_by_bytes_and_what_finds_no_room_is_counted(bench: Bench) -> None:
    assert bench.writer.submit(payload(1, b"x" * 900))
    assert not bench.writer.submit(payload(2, b"x" * 200))
    assert bench.writer.dropped == 1
    bench.writer.start()
    assert bench.writer.flush(5_000_000)
    assert bench.writer.submit(payload(3, b"x" * 900))


def test_a_stop_while_the_disk_refuses_ends_the_thread_and_acknowledges_nothing(bench: Bench) -> None:
    bench.store.broken.set()
    bench.writer.start()
    for seq in range(1, 21):  # more than one group
        bench.writer.submit(payload(seq), "agent")
    eventually(lambda: bench.writer.trouble, what="a try")
    bench.writer.halt()
    bench.writer.thread.join(5.0)
    assert not bench.writer.thread.is_alive()
    assert bench.acked == []
    assert bench.writer.dropped == 20, "what waited is counted"
