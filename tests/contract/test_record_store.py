"""What every record store promises: one row per identity, whatever arrives in whatever order."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cloud.store.records import RecordStore, open_store
from cloud.store.row import RecordRow
from pipelines.errors import Rejected
from pipelines.frame import FrameId
from pipelines.result import AnsweredBy, Detections, Gap, GapReason, Record, Status
from tests.support.stores import NewUrl

RUN = bytes(range(16))
NOW_UNIX_US = 1_700_000_000_000_000


def boxes(x: float, n: int = 1) -> Detections:
    return Detections(
        np.full((n, 4), x, np.float32), np.full(n, 0.5, np.float32), np.zeros(n, np.uint16), ("face",)
    )


def record(
    seq: int, by: AnsweredBy, *, detections: Detections | None = None, late_far: bool = False
) -> Record:
    return Record(
        id=FrameId("gw", RUN, "door", seq),
        answered_by=by,
        status=Status.TIMEOUT if by is AnsweredBy.MISSED else Status.OK,
        late_far=late_far,
        latency_us=40_000,
        on_time=by in (AnsweredBy.NEAR, AnsweredBy.FAR),
        captured_unix_us=NOW_UNIX_US,
        age_us=60_000,
        detections=detections,
        model="m",
        model_sha256="ab" * 32,
        timing_us={"encode": 3000, "detect": 20_000},
    )


FAR_RESULT = ("far", record(1, AnsweredBy.FAR, detections=boxes(1, 3)))
FAR_OUTCOME = ("given", record(1, AnsweredBy.FAR))
FAR_WHOLE = ("given", record(1, AnsweredBy.FAR, detections=boxes(1, 3)))
NEAR = ("given", record(1, AnsweredBy.NEAR, detections=boxes(2)))
NEAR_LATE_FAR = ("given", record(1, AnsweredBy.NEAR, detections=boxes(2), late_far=True))
NEAR_OUT_LATE = (
    "given",
    replace(record(1, AnsweredBy.NEAR, detections=boxes(2)), on_time=False, latency_us=130_000),
)
MISSED = ("given", record(1, AnsweredBy.MISSED))


@pytest.fixture
def store(new_url: NewUrl) -> Iterator[RecordStore]:
    with open_store(new_url()) as opened:
        yield opened


def put(store: RecordStore, *arrivals: tuple[str, Record]) -> None:
    for what, value in arrivals:
        if what == "far":
            store.commit(far=[value], now_unix_us=NOW_UNIX_US)
        else:
            store.commit(given=[value], now_unix_us=NOW_UNIX_US)


def only(store: RecordStore) -> RecordRow:
    (row,) = store.rows()
    return row


def test_a_far_result_is_a_row_before_its_outcome_is_known(store: RecordStore) -> None:
    put(store, FAR_RESULT)
    row = only(store)
    assert (row.answered_by, row.on_time, row.source) == (None, None, "live")
    assert row.best == boxes(1, 3)
    assert not row.late_far
    assert store.counts()["unknown"] == 1


def test_an_outcome_adds_latency_and_on_time_to_the_far_result(store: RecordStore) -> None:
    put(store, FAR_RESULT, FAR_OUTCOME)
    row = only(store)
    assert (row.answered_by, row.on_time, row.latency_us) == (AnsweredBy.FAR, True, 40_000)
    assert row.best == boxes(1, 3)
    assert not row.late_far


def test_a_late_far_result_outranks_the_near_answer_which_is_kept_beside(store: RecordStore) -> None:
    put(store, NEAR, FAR_RESULT)
    row = only(store)
    assert row.best == boxes(1, 3)
    assert row.detections == boxes(2)
    assert row.answered_by is AnsweredBy.NEAR
    assert row.late_far
    assert store.counts()["late_far"] == 1


def test_an_answer_kept_in_time_and_released_late_counts_as_released(store: RecordStore) -> None:
    put(store, NEAR)
    assert store.counts()["on_time"] == 1
    put(store, NEAR_OUT_LATE, NEAR)
    assert (only(store).on_time, only(store).latency_us) == (False, 130_000)
    assert only(store).best == boxes(2)
    assert store.counts()["on_time"] == 0


def test_a_missed_answer_has_no_detections_and_a_run_that_saw_nothing_has_none_of_them(
    store: RecordStore,
) -> None:
    put(store, MISSED)
    assert only(store).best is None
    assert only(store).as_dict()["best_detections"] is None
    empty = Record(
        id=FrameId("gw", RUN, "door", 2),
        answered_by=AnsweredBy.NEAR,
        status=Status.OK,
        detections=Detections.empty(("face",)),
    )
    store.commit(given=[empty], now_unix_us=NOW_UNIX_US)
    best = next(r.best for r in store.rows() if r.id.seq == 2)
    assert best is not None
    assert len(best) == 0


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kinds=st.sampled_from(
        [
            (FAR_RESULT, FAR_OUTCOME),
            (FAR_RESULT, FAR_OUTCOME, FAR_WHOLE),
            (FAR_RESULT, NEAR, NEAR_LATE_FAR),
            (FAR_RESULT, MISSED),
            (NEAR, NEAR_OUT_LATE),
            (NEAR_OUT_LATE, NEAR_LATE_FAR, FAR_RESULT),
        ]
    ),
    data=st.data(),
)
def test_any_order_and_any_repeats_end_in_the_same_row(
    kinds: tuple[tuple[str, Record], ...], data: st.DataObject, new_url: NewUrl
) -> None:
    repeats = data.draw(st.lists(st.sampled_from(kinds), max_size=4))
    order = data.draw(st.permutations([*kinds, *repeats]))
    with open_store(new_url()) as one, open_store(new_url()) as two:
        put(one, *kinds)
        put(two, *order)
        assert only(one) == only(two)


def test_a_repeated_record_is_one_row(store: RecordStore) -> None:
    store.commit(given=[NEAR[1], NEAR[1]], far=[FAR_RESULT[1], FAR_RESULT[1]], now_unix_us=NOW_UNIX_US)
    assert store.identities() == [FrameId("gw", RUN, "door", 1)]


def test_a_commit_refused_half_way_leaves_nothing_and_the_next_one_goes_through(store: RecordStore) -> None:
    too_long = replace(record(2, AnsweredBy.NEAR), latency_us=1 << 70)
    with pytest.raises(Rejected):
        store.commit(far=[FAR_RESULT[1]], given=[too_long], now_unix_us=NOW_UNIX_US)
    assert list(store.rows()) == []
    put(store, FAR_RESULT)
    assert only(store).best == boxes(1, 3)


def test_two_agents_streams_and_runs_never_share_a_row(store: RecordStore) -> None:
    ids = {
        FrameId("gw", RUN, "door", 1),
        FrameId("gw", RUN, "yard", 1),
        FrameId("gw", bytes(16), "door", 1),
        FrameId("other", RUN, "door", 1),
    }
    store.commit(
        given=[Record(id=i, answered_by=AnsweredBy.NEAR, status=Status.OK) for i in ids],
        now_unix_us=NOW_UNIX_US,
    )
    found = store.identities()
    assert found == sorted(ids)


def test_gaps_explain_missing_frames_and_may_be_repeated(store: RecordStore) -> None:
    gap = Gap(run=RUN, stream="door", first=5, last=9, reason=GapReason.SHED, detail="overload")
    for _ in range(2):
        store.commit(gaps=[("gw", gap)], now_unix_us=NOW_UNIX_US)
    assert store.gaps() == [("gw", gap)]


def test_counts_add_up_over_the_answerers(store: RecordStore) -> None:
    given_records = [record(i, by) for i, by in enumerate(AnsweredBy, start=1)]
    store.commit(given=given_records, now_unix_us=NOW_UNIX_US)
    counts = store.counts()
    assert counts["records"] == 4 == sum(counts[by.value] for by in AnsweredBy) + counts["unknown"]
    assert counts["on_time"] == 2


def test_a_store_keeps_its_id_and_rows_when_opened_again(new_url: NewUrl) -> None:
    url = new_url()
    with open_store(url) as first:
        put(first, NEAR)
        name = first.store_id
    with open_store(url) as second, open_store(url, read_only=True) as reader:
        assert second.store_id == name == reader.store_id
        assert len(reader.identities()) == 1


def test_the_newest_rows_come_first_when_asked(store: RecordStore) -> None:
    for seq in (1, 2, 3):
        store.commit(given=[record(seq, AnsweredBy.NEAR)], now_unix_us=NOW_UNIX_US + seq)
    assert [r.id.seq for r in store.rows(limit=2, newest_first=True)] == [3, 2]


def test_every_row_speaks_plain_json_values(store: RecordStore) -> None:
    put(store, NEAR, FAR_RESULT)
    line = only(store).as_dict()
    assert line["best_detections"][0]["label"] == "face"
    assert line["timing_ms"] == {"detect": 20.0, "encode": 3.0}


@pytest.fixture
def two(new_url: NewUrl) -> Iterator[tuple[RecordStore, RecordStore]]:
    """One store, opened by two workers."""
    url = new_url()
    with open_store(url) as one, open_store(url) as other:
        yield one, other


def together(*works: Callable[[], object]) -> None:
    """Each on a thread of its own, all begun at the same moment; what one raises is raised."""
    barrier = threading.Barrier(len(works))
    with ThreadPoolExecutor(len(works)) as pool:
        begun = [pool.submit(lambda work=work: (barrier.wait(5.0), work())) for work in works]  # type: ignore[misc]
        for each in begun:
            each.result(30.0)


def test_workers_that_start_at_once_on_a_new_store_agree_on_it(new_url: NewUrl) -> None:
    for _ in range(5):
        ids: list[str] = []

        def start(url: str = new_url(), ids: list[str] = ids) -> None:
            with open_store(url) as opened:
                ids.append(opened.store_id)

        together(*[start] * 6)
        assert len(ids) == 6
        assert len(set(ids)) == 1


def test_two_workers_that_write_at_once_wait_for_each_other_and_lose_nothing(
    two: tuple[RecordStore, RecordStore],
) -> None:
    def write(store: RecordStore, what: str) -> None:
        for seq in range(1, 61):
            if what == "far":
                store.commit(
                    far=[record(seq, AnsweredBy.FAR, detections=boxes(1, 3))], now_unix_us=NOW_UNIX_US
                )
            else:
                store.commit(
                    given=[record(seq, AnsweredBy.NEAR, detections=boxes(2))], now_unix_us=NOW_UNIX_US
                )

    one, other = two
    together(lambda: write(one, "far"), lambda: write(other, "near"))
    rows = list(one.rows())
    assert [r.id.seq for r in rows] == list(range(1, 61))
    assert all(r.best == boxes(1, 3) and r.detections == boxes(2) for r in rows)


@pytest.mark.parametrize("far_first", [True, False])
def test_far_outranks_near_whichever_worker_each_came_to(
    two: tuple[RecordStore, RecordStore], far_first: bool
) -> None:
    one, other = two
    arrivals = [(one, FAR_RESULT), (other, NEAR)]
    for store, arrival in arrivals if far_first else reversed(arrivals):
        put(store, arrival)
    assert only(one) == only(other)
    assert only(one).best == boxes(1, 3)
    assert only(one).answered_by is AnsweredBy.NEAR
    assert only(one).late_far


def test_reading_while_another_worker_writes_is_refused_to_neither(
    two: tuple[RecordStore, RecordStore],
) -> None:
    one, other = two
    put(one, NEAR)
    reading = iter(one.rows())
    next(reading)
    other.commit(far=[record(2, AnsweredBy.FAR)], now_unix_us=NOW_UNIX_US)
    assert list(reading) == []
    assert len(one.identities()) == 2
