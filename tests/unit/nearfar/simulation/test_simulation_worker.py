"""The worker in virtual time keeps the promises of the real one, for it runs the same queue and admission."""

from hypothesis import given, settings
from hypothesis import strategies as st

from cloud.scheduling.batch_rule import BatchRule
from edge.scheduling.key import Key
from nearfar.simulation.clock import Clock
from nearfar.simulation.worker_model import WorkerModel
from pipelines.frame import Encoding
from pipelines.result import Load, WorkerTiming
from protos.wire.live import FrameHead
from protos.wire.session import Credit, RejectReason
from tests.support.simulated import MS


class Desk:
    """A worker whose every frame takes 20 ms, with what it said noted."""

    def __init__(
        self, *, credit: int = 8, service_ms: int = 20, instances: int = 1, batch: BatchRule | None = None
    ) -> None:
        self.clock = Clock()
        self.worker = WorkerModel(
            self.clock,
            service_us=lambda _: service_ms * MS,
            seen_us=20 * MS,
            credit=Credit(frames=credit, bytes=1 << 20),
            instances=instances,
            batch=batch,
            batch_us=lambda alone_us: max(alone_us) + 2 * MS * (len(alone_us) - 1),
        )
        self.results: list[tuple[int, int, WorkerTiming]] = []
        self.rejects: list[tuple[int, int, RejectReason]] = []

    def head(self, seq: int, budget_ms: int, size_bytes: int = 1000) -> bool:
        key: Key = ("s", seq)

        def replied(timing: WorkerTiming, load: Load) -> None:
            self.results.append((seq, self.clock.now_us // MS, timing))

        def rejected(reason: RejectReason, load: Load) -> None:
            self.rejects.append((seq, self.clock.now_us // MS, reason))

        encoding = Encoding(codec="jpeg", quality=50, width_px=1, height_px=1, body_bytes=size_bytes)
        head = FrameHead(
            stream=0, seq=seq, worker_budget_us=budget_ms * MS, sent_mono_us=0, encoding=encoding
        )
        return self.worker.head(key, head, replied=replied, rejected=rejected)

    def frame(self, seq: int, budget_ms: int = 200) -> None:
        if self.head(seq, budget_ms):
            self.worker.body(("s", seq))

    def run(self, until_ms: int) -> None:
        while (due_us := self.clock.next_us()) is not None and due_us <= until_ms * MS:
            self.clock.advance(due_us)
            self.clock.run_due()
        self.clock.advance(until_ms * MS)


def test_a_frame_is_answered_after_its_service_time():
    desk = Desk()
    desk.frame(1)
    desk.run(100)
    ((seq, at_ms, timing),) = desk.results
    assert (seq, at_ms, timing.detect_us, timing.queue_us) == (1, 20, 20 * MS, 0)


def test_frames_that_run_together_are_answered_together():
    desk = Desk(batch=BatchRule(max=4))
    for seq in range(1, 7):
        desk.frame(seq, 500)
    desk.run(500)
    assert [at_ms for _, at_ms, _ in desk.results] == [20, 46, 46, 46, 46, 66]


def test_a_frame_waits_for_company_only_as_long_as_it_can():
    desk = Desk(batch=BatchRule(max=4, wait_us=60 * MS))
    desk.frame(1, 500)
    desk.run(50)
    desk.frame(2, 500)
    desk.run(200)
    assert [at_ms for _, at_ms, _ in desk.results] == [82, 82]
    desk.frame(3, 50)
    desk.run(400)
    ((seq, at_ms, _),) = desk.results[2:]
    assert seq == 3
    assert at_ms <= 250


def test_the_earliest_deadline_runs_first_and_a_started_run_finishes():
    desk = Desk()
    for seq, budget_ms in ((1, 500), (2, 400), (3, 100)):
        desk.frame(seq, budget_ms)
    desk.run(500)
    assert [seq for seq, _, _ in desk.results] == [1, 3, 2]


def test_a_frame_without_a_chance_is_rejected_on_its_head_at_once():
    desk = Desk()
    for seq in (1, 2, 3):
        desk.frame(seq, 75)
    assert not desk.head(4, budget_ms=75)  # three of 20 ms stand before it
    assert desk.rejects == [(4, 0, RejectReason.TOO_LATE)]


def test_what_expires_while_it_waits_is_rejected_and_never_started():
    desk = Desk(service_ms=150)
    desk.frame(1, 300)
    desk.frame(2, 100)
    desk.run(1_000)
    assert [seq for seq, _, _ in desk.results] == [1]
    ((seq, at_ms, reason),) = desk.rejects
    assert (seq, reason) == (2, RejectReason.EXPIRED)
    assert 100 <= at_ms <= 150


def test_a_body_that_comes_too_late_is_not_run():
    desk = Desk()
    assert desk.head(1, budget_ms=30)
    desk.run(200)
    desk.worker.body(("s", 1))
    desk.run(400)
    assert desk.results == []
    assert [reason for _, _, reason in desk.rejects] == [RejectReason.EXPIRED]


def test_more_than_the_window_is_refused_and_a_reply_makes_room():
    desk = Desk(credit=2)
    for seq in (1, 2, 3):
        desk.frame(seq, 1_000)
    assert [(seq, reason) for seq, _, reason in desk.rejects] == [(3, RejectReason.OVER_CREDIT)]
    desk.run(25)
    desk.frame(4, 1_000)
    desk.run(200)
    assert [seq for seq, _, _ in desk.results] == [1, 2, 4]


def test_a_cancelled_frame_is_not_run_unless_it_has_started():
    desk = Desk()
    desk.frame(1)
    desk.frame(2)
    desk.worker.cancel(("s", 1))
    desk.worker.cancel(("s", 2))
    desk.run(200)
    assert [seq for seq, _, _ in desk.results] == [1]
    assert desk.worker.load().queue_frames == 0


STEP = st.one_of(
    st.tuples(st.just("head"), st.integers(1, 300)),
    st.tuples(st.just("body"), st.integers(0, 20)),
    st.tuples(st.just("cancel"), st.integers(0, 20)),
    st.tuples(st.just("wait"), st.integers(1, 80)),
)


@settings(max_examples=150, deadline=None)
@given(
    steps=st.lists(STEP, max_size=40),
    service_ms=st.sampled_from([1, 20, 150]),
    credit=st.integers(1, 6),
    instances=st.integers(1, 3),
    batch=st.builds(BatchRule, max=st.integers(2, 4), wait_us=st.sampled_from([0, 5 * MS, 100 * MS]))
    | st.just(BatchRule()),
)
def test_every_head_ends_as_one_of_result_reject_and_cancelled(steps, service_ms, credit, instances, batch):
    desk = Desk(credit=credit, service_ms=service_ms, instances=instances, batch=batch)
    heads, cancelled = 0, set()
    for what, value in steps:
        if what == "head":
            heads += 1
            desk.head(heads, value)
        elif what == "body":
            desk.worker.body(("s", value))
        elif what == "cancel":
            cancelled.add(value)
            desk.worker.cancel(("s", value))
        else:
            desk.run(desk.clock.now_us // MS + value)
    desk.run(desk.clock.now_us // MS + 5_000)
    ended = [seq for seq, _, _ in desk.results] + [seq for seq, _, _ in desk.rejects]
    assert len(ended) == len(set(ended))
    assert set(range(1, heads + 1)) - set(ended) <= cancelled
    load = desk.worker.load()
    assert (load.queue_frames, load.queue_us) == (0, 0)
    expected = min(credit, 3)
    for seq in range(1_000, 1_000 + expected):
        assert desk.head(seq, 10_000)
