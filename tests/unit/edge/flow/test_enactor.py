"""What is decided is done: frames are shed with their reason, and the scheduler learns what it must know."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from edge.flow.dispatcher import Dispatcher
from edge.flow.enactor import Enactor
from edge.flow.encoder import Encoded
from edge.flow.pending import Pending
from edge.flow.track_runner import TrackRun
from edge.flow.unasked import Unasked
from edge.outbox.stats import OutboxStats
from edge.scheduling import actions
from edge.scheduling.key import Key
from edge.telemetry.counters import Counters
from pipelines.frame import Encoding, Frame
from pipelines.result import AnsweredBy, Detections, GapReason, Priority, ShedReason, Status
from pipelines.trackers.base import Base, Carried
from tests.support.virtual import LINK, links, world

NOW_US = 5_000_000
KEY = ("door", 7)


def encoded(rung: int, *, data: bytes | None = b"payload") -> Encoded:
    encoding = Encoding(codec="jpeg", quality=50, width_px=32, height_px=24, body_bytes=7)
    return Encoded(key=KEY, rung=rung, data=data, encoding=encoding, encode_us=900, failed="not encoded")


class House:
    """An enactor, and a dispatcher where one is needed, with a frame that was taken; the scheduler's calls are kept."""

    def __init__(self, scheduler: Any = None) -> None:
        self.gaps: list[tuple[int, GapReason, str]] = []
        self.shed: list[ShedReason] = []
        self.told: list[tuple[Any, ...]] = []
        scheduler = scheduler or SimpleNamespace(
            ways={}, saw=self._tell("saw"), send_failed=self._tell("failed", []),
            encoded=self._tell("encoded", []), next_us=lambda: None, forget=lambda *_: [],
        )  # fmt: skip
        self.seen = Detections(
            np.zeros((1, 4), np.float32), np.full(1, 0.9, np.float32), np.zeros(1, np.uint16), ("thing",)
        )
        answer = SimpleNamespace(
            answered_by=AnsweredBy.NEAR, on_time=True, paced=True, status=Status.OK, latency_us=1,
            detections=self.seen,
        )  # fmt: skip
        self.desk: Any = SimpleNamespace(
            release=lambda *_: answer,
            as_record=lambda given: given,
            shed=lambda _, reason: self.shed.append(reason),
        )
        self.outbox: Any = SimpleNamespace(
            gap=lambda *, stream, seq, reason, detail: self.gaps.append((seq, reason, detail)),
            far_answered=lambda _: None,
            settled=lambda *_: None,
        )
        desk: Any = self.desk
        self.table: dict[Key, Pending] = {}
        self.counters = Counters(captured=1)
        self.enactor = Enactor(
            scheduler=scheduler,
            near=None,
            far=None,
            outbox=self.outbox,
            desk=desk,
            counters=self.counters,
            unasked=Unasked(outbox=self.outbox, desk=desk, counters=self.counters),
            pending=self.table,
            clock_us=lambda: NOW_US,
        )
        self.scheduler = scheduler
        picture = np.zeros((24, 32, 3), np.uint8)
        frame = Frame(
            stream="door", seq=7, picture=picture, captured_us=1, available_us=1, captured_unix_us=1
        )
        self.pending = Pending(frame=frame, deadline_us=NOW_US, accepted_us=1, priority=Priority.NORMAL)
        self.table[KEY] = self.pending

    def hear(self, *reports: Encoded) -> None:
        """A dispatcher that holds the frame hears `reports`, one after the other, and ends."""

        desk: Any = self.desk

        def far(pending: Any) -> Any:
            pending[KEY] = self.pending
            return SimpleNamespace(look=lambda _, **__: None)

        dispatcher = Dispatcher(
            scheduler=self.scheduler,
            deadline_us=100_000,
            streams=[],
            near=None,
            far=far,
            outbox=self.outbox,
            desk=desk,
            counters=self.counters,
            clock_us=lambda: NOW_US,
        )
        for report in reports:
            dispatcher.encoded(report)
        dispatcher.stop()
        dispatcher.run()

    def _tell(self, what: str, back: Any = None) -> Any:
        def tell(*args: Any, **more: Any) -> Any:
            self.told.append((what, *args, *more.values()))
            return back

        return tell


def test_a_frame_the_scheduler_sheds_is_counted_once_and_explained_to_the_cloud() -> None:
    house = House()
    house.enactor.do([actions.Shed(KEY, ShedReason.PRIORITY), actions.Shed(KEY, ShedReason.PRIORITY)])
    assert house.gaps == [(7, GapReason.SHED, "priority")]
    assert house.shed == [ShedReason.PRIORITY]
    assert len(house.table) == house.counters.pending == 0


def test_what_an_answer_showed_is_told_to_the_scheduler_once_it_is_out() -> None:
    house = House()
    give = actions.Give(KEY, AnsweredBy.FAR, Status.OK, "", hold=False, link=LINK)
    house.enactor.do([give])
    assert house.told == [("saw", "door", house.seen, NOW_US, (32, 24))], (
        "regions are judged in the picture's pixels"
    )


def test_backfill_counts_against_the_data_budget_of_its_link() -> None:
    w = world(links=links(LINK, bytes_per_hour=1_000_000))
    before = w.scheduler.ways[LINK].budget.spent_bytes
    w.scheduler.spent(LINK, 900_000, w.now_us)
    assert w.scheduler.ways[LINK].budget.spent_bytes == before + 900_000


@pytest.mark.parametrize("data", [b"payload", None])
def test_a_payload_of_a_rung_that_is_no_longer_wanted_is_not_sent_as_another(data: bytes | None) -> None:
    house = House()
    house.pending.rung = 1
    house.hear(encoded(0, data=data))
    assert (house.told, house.pending.payload) == ([], None)
    house.hear(encoded(0, data=data), encoded(1))
    assert house.pending.payload == b"payload"
    assert [what for what, *_ in house.told] == ["encoded"]


@pytest.mark.parametrize("writes", [True, False])
def test_only_while_the_outbox_takes_something_does_a_near_answer_wait_for_its_commit(
    *, writes: bool
) -> None:
    house = House(SimpleNamespace(committed=lambda key, _, *, kept: [actions.Release(key, kept)],
                                  saw=lambda *_: None))  # fmt: skip
    kept: list[Any] = []
    house.desk.record = lambda *_: SimpleNamespace(latency_us=1, on_time=True)
    house.outbox.append = kept.append
    house.outbox.stats = lambda: OutboxStats(writes=writes)
    house.enactor.do([actions.Give(KEY, AnsweredBy.NEAR, Status.OK, "", hold=True)])
    assert (len(house.table), house.counters.uncommitted) == ((1, 0) if writes else (0, 1))
    assert len(kept) == 1, "it still is written once the disk takes something"


@pytest.mark.parametrize(("released_us", "records"), [(90_000, 1), (120_000, 2)])
def test_the_store_learns_of_a_tracked_answer_that_its_commit_made_late(
    released_us: int, records: int
) -> None:
    house = House()
    kept: list[Any] = []
    given = SimpleNamespace(latency_us=80_000, on_time=False)
    out = SimpleNamespace(
        answered_by=AnsweredBy.TRACKED, on_time=False, paced=True, status=Status.OK, latency_us=released_us,
        deadline_us=100_000, detections=None,
    )  # fmt: skip
    house.desk.record = lambda *_: given
    house.desk.release = lambda *_: out
    house.outbox.append = kept.append
    house.outbox.stats = OutboxStats
    house.pending.deadline_us = 100_001
    carried = Carried(
        detections=house.seen,
        base=Base(seq=5, detections=house.seen, worth=1.0, model="far", model_sha256="ab" * 32),
        age_frames=2,
        age_us=80_000,
    )
    house.pending.track = TrackRun(key=KEY, carried=carried, ready_us=10, took_us=5)
    house.enactor.do(
        [
            actions.Give(KEY, AnsweredBy.TRACKED, Status.OK, "", hold=True),
            actions.Release(KEY, committed=True),
        ]
    )
    assert kept == [given, out][:records]
