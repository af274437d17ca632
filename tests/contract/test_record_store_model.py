"""Any history of a record store with its pictures, on every database, against a model that is a handful of dictionaries."""

import tempfile
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from sqlalchemy.engine import Connection

from cloud.store.payloads.folder import PayloadFolder, content_hash
from cloud.store.payloads.store import Payload, Payloads
from cloud.store.records import open_store
from cloud.store.retention import Retention
from pipelines.frame import Encoding, FrameId
from pipelines.result import PRIORITIES, AnsweredBy, Detections, Gap, GapReason, Record, Status
from tests.support.stores import NewUrl

RUN = bytes(16)
MAX_BYTES = 210  # two of the smaller pictures
SIZE_BYTES = 100

seqs = st.integers(1, 6)
givers = st.sampled_from(AnsweredBy)


def boxes(x: int) -> Detections:
    return Detections(
        np.full((1, 4), x, np.float32), np.full(1, 0.5, np.float32), np.zeros(1, np.uint16), ("a",)
    )


def record(
    seq: int, by: AnsweredBy, *, x: int | None = None, late_far: bool = False, out_us: int = 1
) -> Record:
    return Record(
        id=FrameId("gw", RUN, "door", seq),
        answered_by=by,
        status=Status.OK,
        detections=None if x is None else boxes(x),
        late_far=late_far,
        latency_us=out_us,
        on_time=out_us <= 1,
    )


class PulledPlugError(Exception):
    """The worker died in the middle of a transaction."""


class StoreMachine(RuleBasedStateMachine):
    """`rows`: seq → what its row must say. A crash is a store opened anew, or a transaction that never ended."""

    new_url: NewUrl

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self.url = self.new_url()
        self.store = open_store(self.url)
        self.folder = PayloadFolder(Path(self._folder.name) / "payloads")
        self.payloads = Payloads(self.store, self.folder, max_bytes=MAX_BYTES)
        self.now_us = 1
        self.rows: dict[int, dict[str, Any]] = {}
        self.gap_rows: dict[tuple[int, int], int] = {}
        self.refs: dict[int, bytes] = {}
        self.ref_born: dict[int, int] = {}
        self.contents: dict[bytes, tuple[int, int]] = {}  # data → (worth, when it last came)

    def teardown(self) -> None:
        self.store.close()
        self._folder.cleanup()

    def row(self, seq: int) -> dict[str, Any]:
        fresh = {
            "by": None,
            "out": None,
            "x": None,
            "late": False,
            "far": None,
            "born": self.now_us,
            "live": False,
        }
        return self.rows.setdefault(seq, fresh)

    @rule(seq=seqs, by=givers, x=st.none() | st.integers(0, 3), late=st.booleans(), out_us=st.integers(0, 2))
    def an_answer_comes(self, seq: int, by: AnsweredBy, x: int | None, late: bool, out_us: int) -> None:
        given = record(seq, by, x=x, late_far=late, out_us=out_us)
        self.store.commit(given=[given], now_unix_us=self.now_us)
        row = self.row(seq)
        if row["by"] is None or out_us > row["out"]:
            row["by"], row["out"] = by, out_us
        row["x"] = row["x"] if row["x"] is not None else x
        row["late"] = row["late"] or late

    @rule(found=st.lists(st.tuples(seqs, st.integers(0, 3)), max_size=4))
    def results_come(self, found: list[tuple[int, int]]) -> None:
        far = [record(seq, AnsweredBy.FAR, x=x) for seq, x in found]
        self.store.commit(far=far, now_unix_us=self.now_us)
        for seq, x in sorted(found, key=lambda f: f[0]):
            row = self.row(seq)
            row["live"] = True
            if row["far"] is None:
                row["far"] = x

    @rule(first=seqs, length=st.integers(0, 2))
    def a_gap_comes(self, first: int, length: int) -> None:
        gap = Gap(run=RUN, stream="door", first=first, last=first + length, reason=GapReason.SHED)
        self.store.commit(gaps=[("gw", gap)], now_unix_us=self.now_us)
        self.gap_rows.setdefault((first, first + length), self.now_us)

    @rule(seq=seqs, kind=st.integers(1, 4), priority=st.sampled_from(PRIORITIES), large=st.booleans())
    def a_picture_comes(self, seq: int, kind: int, priority: Any, large: bool) -> None:
        data = bytes([kind]) * (SIZE_BYTES + large)
        payload = Payload(
            id=FrameId("gw", RUN, "door", seq),
            encoding=Encoding(codec="jpeg", quality=1, width_px=1, height_px=1),
            data=data,
            priority=priority,
        )
        self.payloads.commit([payload], now_unix_us=self.now_us)
        worth, came_us = self.contents.get(data, (0, 0))
        while data not in self.contents and sum(map(len, self.contents)) + len(data) > MAX_BYTES:
            worst = min(self.contents, key=lambda d: (*self.contents[d], content_hash(d)))
            del self.contents[worst]
        self.contents[data] = (max(worth, payload.worth), max(came_us, self.now_us))
        before = self.refs.get(seq)
        if before is None or (len(data), content_hash(data)) > (len(before), content_hash(before)):
            self.refs[seq], self.ref_born[seq] = data, self.now_us
        if before is not None:
            self.forget_unreferred({before, data})

    def forget_unreferred(self, among: set[bytes]) -> None:
        for data in among - set(self.refs.values()):
            self.contents.pop(data, None)

    @rule(span_us=st.integers(1, 10))
    def time_passes(self, span_us: int) -> None:
        self.now_us += span_us

    @rule(age_us=st.integers(0, 15))
    def what_is_old_is_pruned(self, age_us: int) -> None:
        before_us = self.now_us - age_us
        retention = Retention(self.store, self.payloads)
        while retention.prune(before_us, at_most=2).more:
            pass
        gone = {seq for seq, row in self.rows.items() if row["born"] < before_us}
        for seq in gone:
            del self.rows[seq]
        gone |= {seq for seq in self.refs if seq not in self.rows and self.ref_born[seq] < before_us}
        lost = {self.refs.pop(seq) for seq in gone if seq in self.refs}
        self.forget_unreferred(lost)
        self.gap_rows = {gap: born for gap, born in self.gap_rows.items() if born >= before_us}

    @rule()
    def the_worker_starts_anew(self) -> None:
        store_id = self.store.store_id
        self.store.close()
        self.store = open_store(self.url)
        assert self.store.store_id == store_id
        self.payloads = Payloads(self.store, self.folder, max_bytes=MAX_BYTES)

    @rule()
    def the_plug_is_pulled_in_a_transaction(self) -> None:
        with pytest.raises(PulledPlugError), self.store.writing() as connection:
            self.delete_all_and_die(connection)

    def delete_all_and_die(self, connection: Connection) -> None:
        connection.exec_driver_sql("DELETE FROM records")
        raise PulledPlugError

    @invariant()
    def every_row_says_what_came_and_no_more(self) -> None:
        found = {row.id.seq: row for row in self.store.rows()}
        assert len(self.store.identities()) == len(found) == len(self.rows)
        for seq, wanted in self.rows.items():
            row = found[seq]
            assert row.answered_by is wanted["by"]
            assert row.latency_us == wanted["out"]
            assert row.on_time == (None if wanted["out"] is None else wanted["out"] <= 1)
            assert row.detections == (None if wanted["x"] is None else boxes(wanted["x"]))
            assert row.far_detections == (None if wanted["far"] is None else boxes(wanted["far"]))
            outranked = wanted["far"] is not None and wanted["by"] not in (None, AnsweredBy.FAR)
            assert row.late_far == (wanted["late"] or outranked)
            assert row.source == ("live" if wanted["live"] else "backfill")
            assert row.received_unix_us == wanted["born"]
            data = self.refs.get(seq)
            assert (row.payload is None) == (data is None)
            if row.payload is not None and data is not None:
                assert row.payload.sha256 == content_hash(data)
                assert row.payload.kept == (data in self.contents)

    @invariant()
    def gaps_are_explained_once(self) -> None:
        assert {(g.first, g.last) for _, g in self.store.gaps()} == set(self.gap_rows)

    @invariant()
    def the_folder_holds_what_the_rows_say_within_the_quota(self) -> None:
        files = {p.name: p.read_bytes() for p in self.folder.root.rglob("*") if p.is_file()}
        assert files == {content_hash(data): data for data in self.contents}
        assert self.payloads.used_bytes == sum(map(len, self.contents)) <= MAX_BYTES
        assert self.payloads.count_used() == self.payloads.used_bytes


def test_any_history_ends_as_the_model_says(new_url: NewUrl) -> None:
    class Here(StoreMachine):
        pass

    Here.new_url = staticmethod(new_url)
    run_state_machine_as_test(
        Here,
        settings=settings(
            max_examples=20 if new_url().startswith("sqlite") else 8,  # a server takes longer
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
