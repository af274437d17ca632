"""Pruning by a clock that may be wrong, and a keeper whom trouble does not end."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cloud.store.housekeeper import Housekeeper
from cloud.store.payloads.folder import PayloadFolder
from cloud.store.payloads.store import Payload, Payloads
from cloud.store.records import RecordStore, open_store
from cloud.store.retention import Calendar, Pruned, Retention
from pipelines.errors import ConfigError, Retryable
from pipelines.frame import Encoding, FrameId
from pipelines.result import AnsweredBy, Record, Status
from tests.support.eventually import eventually

SECOND = 1_000_000
HOUR = 3600 * SECOND
DAY = 24 * HOUR
NOW_UNIX_US = 1_700_000_000 * SECOND


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RecordStore]:
    with open_store(f"sqlite:///{tmp_path}/records.db") as opened:
        yield opened


def record(store: RecordStore, seq: int, now_unix_us: int) -> None:
    identity = FrameId("gw", bytes(16), "door", seq)
    store.commit(
        given=[Record(id=identity, answered_by=AnsweredBy.NEAR, status=Status.OK)], now_unix_us=now_unix_us
    )


class Clocks:
    """Both at once, as time passes; the wall clock can be set."""

    def __init__(self) -> None:
        self.mono_us = 0
        self.unix_us = NOW_UNIX_US

    def pass_time(self, span_us: int) -> None:
        self.mono_us += span_us
        self.unix_us += span_us


def keeper(
    store: RecordStore, clocks: Clocks, *, keep_us: int | None = 30 * DAY, payloads: Payloads | None = None
) -> Housekeeper:
    return Housekeeper(
        retention=Retention(store, payloads),
        payloads=payloads,
        keep_us=keep_us,
        clock_us=lambda: clocks.mono_us,
        unix_us=lambda: clocks.unix_us,
    )


def seqs(store: RecordStore) -> list[int]:
    return [identity.seq for identity in store.identities()]


def test_records_go_when_they_are_older_than_they_are_kept(store: RecordStore) -> None:
    clocks = Clocks()
    made = keeper(store, clocks)
    record(store, 1, clocks.unix_us)
    made.turn()
    for _ in range(29):
        clocks.pass_time(DAY)
        made.turn()
    record(store, 2, clocks.unix_us)
    clocks.pass_time(2 * DAY // 2 + HOUR)
    made.turn()
    assert seqs(store) == [2]
    assert made.pruned_records == 1


def test_without_a_limit_nothing_is_ever_pruned(store: RecordStore) -> None:
    clocks = Clocks()
    record(store, 1, 1)
    keeper(store, clocks, keep_us=None).turn()
    assert seqs(store) == [1]


def many(store: RecordStore, count: int, now_unix_us: int) -> None:
    store.commit(
        given=[
            Record(id=FrameId("gw", bytes(16), "door", n), answered_by=AnsweredBy.NEAR, status=Status.OK)
            for n in range(1, count + 1)
        ],
        now_unix_us=now_unix_us,
    )


class Watch:
    """What each pruning was allowed to take; each takes `took_us` on the clock."""

    def __init__(self, clocks: Clocks, monkeypatch: pytest.MonkeyPatch) -> None:
        self.took_us = 0
        self.allowed: list[int] = []
        prune = Retention.prune

        def watched(retention: Retention, before_unix_us: int, *, at_most: int) -> Pruned:
            self.allowed.append(at_most)
            clocks.pass_time(self.took_us)
            return prune(retention, before_unix_us, at_most=at_most)

        monkeypatch.setattr(Retention, "prune", watched)


def test_many_old_records_go_in_steps_that_grow_while_they_are_cheap_and_shrink_when_they_are_not(
    store: RecordStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    clocks = Clocks()
    many(store, 2600, clocks.unix_us)
    made = keeper(store, clocks, keep_us=HOUR)
    made.turn()
    clocks.pass_time(HOUR + SECOND)
    clocks.unix_us -= 1  # an hour and no more
    watch = Watch(clocks, monkeypatch)
    assert made.turn()
    assert made.turn()
    watch.took_us = 100_000
    assert made.turn()
    watch.took_us = 0
    while made.turn():
        pass
    assert watch.allowed == [200, 400, 800, 400, 800, 1600]
    assert seqs(store) == []
    assert made.pruned_records == 2600


def test_however_much_there_is_to_prune_the_quota_gets_its_turn(
    store: RecordStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    payloads = Payloads(store, PayloadFolder(tmp_path / "p"), max_bytes=1000)
    clocks = Clocks()
    record(store, 1, clocks.unix_us)
    made = keeper(store, clocks, payloads=payloads)
    monkeypatch.setattr(Retention, "prune", lambda *_, **__: Pruned(records=200, more=True))
    encoding = Encoding(codec="jpeg", quality=50, width_px=4, height_px=4)
    one = Payload(id=FrameId("gw", bytes(16), "door", 1), encoding=encoding, data=b"x" * 600)
    payloads.commit([one], now_unix_us=1)
    payloads.max_bytes = 500
    for _ in range(8):
        assert made.turn()
    assert payloads.used_bytes == 0


@pytest.mark.parametrize("wrong_us", [2096 * 365 * DAY, NOW_UNIX_US + 8 * DAY])
def test_a_clock_that_is_wrong_at_the_start_costs_no_record(
    store: RecordStore, wrong_us: int, caplog: pytest.LogCaptureFixture
) -> None:
    clocks = Clocks()
    record(store, 1, clocks.unix_us)
    clocks.unix_us = wrong_us
    made = keeper(store, clocks, keep_us=HOUR)
    for _ in range(3):
        made.turn()
        clocks.pass_time(HOUR)
    assert seqs(store) == [1]
    assert caplog.text.count("far ahead of the newest record") == 1


def test_records_of_a_clock_that_stood_in_1970_are_not_pruned_when_a_worker_starts_with_the_right_one(
    store: RecordStore,
) -> None:
    clocks = Clocks()
    record(store, 1, 5 * SECOND)
    made = keeper(store, clocks)
    made.turn()
    assert seqs(store) == [1]
    clocks.pass_time(DAY)
    made.turn()
    assert seqs(store) == []


def test_a_worker_that_was_off_for_days_prunes_as_soon_as_it_is_back(store: RecordStore) -> None:
    clocks = Clocks()
    record(store, 1, clocks.unix_us - 30 * DAY)
    record(store, 2, clocks.unix_us)
    clocks.pass_time(3 * DAY)
    keeper(store, clocks).turn()
    assert seqs(store) == [2]


@pytest.mark.parametrize("jump_us", [365 * DAY, 2 * HOUR])
def test_a_clock_that_jumps_ahead_costs_no_record(
    store: RecordStore, jump_us: int, caplog: pytest.LogCaptureFixture
) -> None:
    clocks = Clocks()
    made = keeper(store, clocks, keep_us=HOUR)
    record(store, 1, clocks.unix_us)
    made.turn()
    clocks.unix_us += jump_us
    for _ in range(3):
        clocks.pass_time(SECOND)
        made.turn()
    clocks.unix_us -= jump_us
    made.turn()
    assert seqs(store) == [1]
    assert caplog.text.count("jumped ahead") == 1


def test_a_clock_that_starts_in_1970_prunes_nothing_and_is_believed_a_day_after_it_was_set() -> None:
    calendar = Calendar()
    assert calendar.today_us(unix_us=5 * SECOND, mono_us=0) == 5 * SECOND
    assert calendar.today_us(unix_us=NOW_UNIX_US, mono_us=SECOND) is None
    assert calendar.today_us(unix_us=NOW_UNIX_US + DAY - 1, mono_us=SECOND + DAY - 1) is None
    assert calendar.today_us(unix_us=NOW_UNIX_US + DAY, mono_us=SECOND + DAY) == NOW_UNIX_US + DAY
    assert calendar.today_us(unix_us=NOW_UNIX_US + 2 * DAY, mono_us=SECOND + 2 * DAY) == NOW_UNIX_US + 2 * DAY


def test_a_clock_set_back_is_believed_at_once_for_it_deletes_less() -> None:
    calendar = Calendar()
    calendar.today_us(unix_us=NOW_UNIX_US, mono_us=0)
    assert calendar.today_us(unix_us=NOW_UNIX_US - DAY, mono_us=SECOND) == NOW_UNIX_US - DAY
    assert calendar.today_us(unix_us=NOW_UNIX_US + SECOND, mono_us=2 * SECOND) is None


def test_the_quota_and_the_leftovers_are_looked_after_too(store: RecordStore, tmp_path: Path) -> None:
    payloads = Payloads(store, PayloadFolder(tmp_path / "p"), max_bytes=1000)
    encoding = Encoding(codec="jpeg", quality=50, width_px=4, height_px=4)
    for seq in range(1, 4):
        data = bytes([seq]) * 300
        payloads.commit(
            [Payload(id=FrameId("gw", bytes(16), "door", seq), encoding=encoding, data=data)],
            now_unix_us=seq,
        )
    payloads.max_bytes = 500
    leftover = payloads.folder.put(b"leftover")
    clocks = Clocks()
    clocks.unix_us = 4_000_000_000 * SECOND  # long after the file was made
    made = keeper(store, clocks, keep_us=None, payloads=payloads)
    for _ in range(256):
        made.turn()
    assert payloads.used_bytes == 300
    assert not payloads.folder.path(leftover).exists()
    assert payloads.counts.leftover == 1


def test_trouble_is_told_once_and_does_not_end_the_keeper(
    store: RecordStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("cloud.store.housekeeper._REST_S", 0.001)
    made = keeper(store, Clocks())
    tries: list[int] = []

    def refuses(_: Retention, before_unix_us: int, *, at_most: int) -> None:
        del at_most
        tries.append(before_unix_us)
        if len(tries) % 2:
            raise Retryable("the disk is full")
        raise ValueError("nobody foresaw this")

    monkeypatch.setattr(Retention, "prune", refuses)
    made.start()
    eventually(lambda: len(tries) > 6, what="further tries")
    made.halt()
    made.thread.join(5.0)
    assert not made.thread.is_alive()
    assert caplog.text.count("not tidied for now") == 1


def test_a_payload_folder_that_cannot_be_made_is_said_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(ConfigError, match=r"store\.payloads\.path: cannot make"):
        PayloadFolder(tmp_path / "file" / "payloads").make()


def test_a_folder_that_is_not_mounted_is_not_taken_for_empty(store: RecordStore, tmp_path: Path) -> None:
    root = tmp_path / "mount" / "payloads"
    encoding = Encoding(codec="jpeg", quality=50, width_px=4, height_px=4)
    one = Payload(id=FrameId("gw", bytes(16), "door", 1), encoding=encoding, data=b"one")
    Payloads(store, PayloadFolder(root), max_bytes=1000).commit([one], now_unix_us=1)
    record(store, 1, 1)
    (tmp_path / "mount").rename(tmp_path / "unmounted")
    payloads = Payloads(store, PayloadFolder(root), max_bytes=1000)
    clocks = Clocks()
    clocks.unix_us = 4_000_000_000 * SECOND
    made = keeper(store, clocks, keep_us=None, payloads=payloads)
    for _ in range(256):
        with pytest.raises(Retryable, match="is its file system mounted"):
            made.turn()
    with pytest.raises(Retryable, match="is its file system mounted"):
        payloads.commit([one], now_unix_us=2)
    assert not (tmp_path / "mount").exists()
    (tmp_path / "unmounted").rename(tmp_path / "mount")
    for _ in range(256):
        made.turn()
    (row,) = store.rows()
    assert row.payload is not None
    assert row.payload.kept
    assert payloads.read(row.payload.sha256) == b"one"
