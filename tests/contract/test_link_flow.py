"""What every link promises of the messages it moves, whatever carries it: one suite over every kind of link."""

import threading
from collections.abc import Iterator

import pytest

from edge.links.base import Connected, Disconnected, Dropped, Received, Sent
from pipelines.runtime import monotonic_us
from protos.wire.bulk import BulkBatch
from protos.wire.live import FrameBody, FrameHead, Result
from protos.wire.session import Hello, Lane, Ping, Pong
from tests.support.endpoints import WELCOME
from tests.support.eventually import eventually
from tests.support.link_house import AT_ONCE_S, BATCH, KINDS, House, frame, link_house, timed


@pytest.fixture(params=KINDS)
def house(request: pytest.FixtureRequest) -> Iterator[House]:
    with link_house(request.param) as made:
        yield made


def test_lanes_never_share_a_connection(house: House) -> None:
    house.connect()
    assert house.link.send(*frame(1), lane=Lane.LIVE) is Sent.ACCEPTED
    assert house.link.send(BATCH, lane=Lane.BULK) is Sent.ACCEPTED
    (live,), (bulk,) = house.worker.on(Lane.LIVE), house.worker.on(Lane.BULK)
    eventually(lambda: len(live.received) == 3 and len(bulk.received) == 2, what="both messages")
    assert [type(m) for m in live.received] == [Hello, FrameHead, FrameBody]
    assert bulk.received[1:] == [BATCH]
    assert len({e.connection for e in house.all(Connected)}) == 2


def test_a_send_before_any_welcome_is_down_and_returns_at_once(house: House) -> None:
    house.start()
    for lane in Lane:
        sent, took_s = timed(house, Ping(nonce=1, sent_mono_us=0), lane=lane)
        assert sent is Sent.DOWN
        assert took_s < AT_ONCE_S
    assert house.link.bytes_sent() == 0


def test_frames_arrive_in_order_head_before_body_and_bytes_unchanged(house: House) -> None:
    house.connect()
    sizes = (30_000, 65_535, 65_536, 250_000, 1_000_000)
    bodies = [bytes([i]) + b"\x00\xff\x80" * (n // 3) for i, n in enumerate(sizes)]
    (session,) = house.worker.on(Lane.LIVE)
    for seq, body in enumerate(bodies, 1):
        assert house.link.send(*frame(seq, body)) is Sent.ACCEPTED
        house.wait_answers(seq)  # a worker answers what it has
    assert [(type(m), m.seq) for m in session.frames] == [
        (kind, seq) for seq in range(1, len(bodies) + 1) for kind in (FrameHead, FrameBody)
    ]
    assert [m.data for m in session.frames if isinstance(m, FrameBody)] == bodies
    assert house.link.bytes_sent() > sum(map(len, bodies))


def test_what_the_worker_would_not_take_is_never_sent_and_counted(house: House) -> None:
    limit_bytes = WELCOME.limits.message_bytes
    house.connect()
    big = b"x" * (limit_bytes + 1)
    assert house.link.send(*frame(1, big)) is Sent.TOO_LARGE
    batch = BulkBatch(batch=1, records_zstd=big[:-1], records_bytes=1)
    assert house.link.send(batch, lane=Lane.BULK) is Sent.TOO_LARGE
    assert house.link.too_large == 2
    assert house.link.send(*frame(2, big[:-1])) is Sent.ACCEPTED, "the limit itself is taken"
    house.wait_answers(1)
    assert [m.seq for m in house.worker.on(Lane.LIVE)[0].frames] == [2, 2]
    assert house.all(Disconnected) == []


def test_a_burst_keeps_its_order_and_every_frame_ends_crossed_or_dropped(house: House) -> None:
    house.connect()
    sent = {s: house.link.send(*frame(s)) for s in range(1, 21)}
    accepted = [s for s, how in sent.items() if how is Sent.ACCEPTED]
    (session,) = house.worker.on(Lane.LIVE)

    def ends() -> tuple[list[int], list[int]]:
        crossed = [m.seq for m in session.frames if isinstance(m, FrameBody)]
        dropped = [d.message.seq for d in house.all(Dropped) if isinstance(d.message, FrameBody)]
        return crossed, dropped

    eventually(lambda: sorted([*ends()[0], *ends()[1]]) == accepted, what=f"an end for each of {accepted}")
    assert ends()[0] == sorted(ends()[0])


def test_answers_come_back_stamped_on_the_gateways_clock(house: House) -> None:
    house.connect()
    before_us = monotonic_us()
    house.link.send(*frame(7))
    house.link.send(Ping(nonce=99, sent_mono_us=before_us))
    eventually(lambda: len(house.messages()) == 2, what="a result and a pong")
    after_us = monotonic_us()
    for event in house.all(Received):
        assert before_us <= event.arrived_us <= after_us
        assert (event.lane, event.connection) == (Lane.LIVE, house.wait(Connected, lane=Lane.LIVE).connection)
    assert {type(m): getattr(m, "seq", None) or getattr(m, "nonce", None) for m in house.messages()} == {
        Result: 7,
        Pong: 99,
    }


def test_a_workers_ping_is_answered_by_the_link_itself(house: House) -> None:
    house.connect()
    (session,) = house.worker.on(Lane.LIVE)
    session.peer.send(Ping(nonce=5, sent_mono_us=1))
    eventually(
        lambda: [m.nonce for m in session.received if isinstance(m, Pong)] == [5], what="the link's own Pong"
    )
    assert house.messages() == []


@pytest.mark.parametrize("lane", list(Lane))
def test_a_worker_that_reads_nothing_never_blocks_a_send(house: House, lane: Lane) -> None:
    house.connect()
    house.place.stop_reading()
    body = b"z" * 1_000_000
    batch = BulkBatch(batch=1, records_zstd=body, records_bytes=len(body))
    ends: list[Sent] = []
    took: list[float] = []

    def pushed_back() -> bool:
        messages = (batch,) if lane is Lane.BULK else frame(len(ends) + 1, body)
        sent, took_s = timed(house, *messages, lane=lane)
        ends.append(sent)
        took.append(took_s)
        return sent is Sent.FULL or bool(house.all(Dropped, lane))

    eventually(pushed_back, 10.0, f"the link said it is full on {lane}")
    assert set(ends) <= {Sent.ACCEPTED, Sent.FULL}
    assert max(took) < AT_ONCE_S
    for dropped in house.all(Dropped):
        assert isinstance(dropped.message, FrameHead | FrameBody | BulkBatch)
    house.place.read_again()


def test_a_full_live_lane_does_not_hold_up_the_bulk_lane(house: House) -> None:
    house.connect()
    house.place.stop_reading()
    eventually(
        lambda: house.link.send(*frame(1, b"z" * 1_000_000)) is Sent.FULL or bool(house.all(Dropped)),
        10.0,
        "a full live lane",
    )
    sent, took_s = timed(house, BATCH, lane=Lane.BULK)
    assert sent is Sent.ACCEPTED
    assert took_s < AT_ONCE_S
    house.place.read_again()
    (bulk,) = house.worker.on(Lane.BULK)
    eventually(lambda: BATCH in bulk.received, 10.0, "the batch")


def test_everything_is_reported_by_threads_of_the_links_own_one_event_at_a_time(house: House) -> None:
    house.connect()
    for seq in range(1, 6):
        house.link.open_fresh()
        assert house.link.send(*frame(seq)) is Sent.ACCEPTED
        house.wait_answers(seq)
    house.wait(Connected, 2, lane=Lane.LIVE)
    assert threading.main_thread() not in house.threads
    assert house.overlaps == 0
