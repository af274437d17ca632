"""The archivist: what it keeps for later, and what happens while its encoder is busy."""

import threading
from collections.abc import Iterator

import numpy as np
import pytest

from edge.archive.archivist import Archivist
from edge.archive.ring import AroundRing
from edge.archive.rules import UplinkRules, Verdict
from edge.outbox.payload import PayloadEntry
from pipelines.codecs.jpeg import JpegCodec
from pipelines.errors import Rejected
from pipelines.frame import Encoding, Frame, Picture
from pipelines.result import AnsweredBy, Priority, Record
from tests.support.eventually import eventually
from tests.support.uplinks import BOTH, SECOND, SIZE, answer, rules


class GatedCodec(JpegCodec):
    """JPEG that waits to be let through; `fail` makes it refuse."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.gate.set()
        self.began = threading.Event()
        self.fail: Exception | None = None

    def encode(
        self, picture: Picture, *, quality: int, size: tuple[int, int] | None = None
    ) -> tuple[bytes, Encoding]:
        self.began.set()
        self.gate.wait(10)
        if self.fail is not None:
            raise self.fail
        return super().encode(picture, quality=quality, size=size)


class Desk:
    def __init__(self, judged: UplinkRules, around: AroundRing[PayloadEntry] | None = None) -> None:
        self.codec = GatedCodec()
        self.kept: list[PayloadEntry] = []
        self.archivist = Archivist(
            rules=judged,
            codec=self.codec,
            quality=90,
            ring=around,
            keep=self.kept.append,
            clock_us=lambda: 100 * SECOND,
        )
        self.archivist.start()

    def give(self, record: Record) -> Verdict:
        return self.archivist.judge(record, frame(record))

    def wait(self) -> list[int]:
        eventually(lambda: self.archivist.idle, what="an idle archivist")
        return [entry.shown.key[2] for entry in self.kept]


def frame(record: Record) -> Frame:
    return Frame(
        stream=record.id.stream,
        seq=record.id.seq,
        picture=np.full((48, 64, 3), record.id.seq % 256, np.uint8),
        captured_us=record.id.seq * SECOND,
        available_us=record.id.seq * SECOND,
        captured_unix_us=1,
    )


UNSURE: dict[str, object] = {"when": {"score_below": 0.6}, "send": BOTH, "priority": "high"}


@pytest.fixture
def desk() -> Iterator[Desk]:
    made = Desk(rules(UNSURE))
    yield made
    made.codec.gate.set()
    made.archivist.close(5.0)


@pytest.fixture
def ring_desk() -> Iterator[Desk]:
    around = AroundRing[PayloadEntry](before_us=2 * SECOND, after_us=SECOND, max_bytes=1 << 20)
    made = Desk(rules(UNSURE), around)
    yield made
    made.codec.gate.set()
    made.archivist.close(5.0)


def test_a_picture_a_rule_wants_is_kept_at_its_full_size_with_its_age_and_rank(desk: Desk) -> None:
    desk.give(answer(40, ("car", 0.9)))
    assert desk.give(answer(41, ("car", 0.5))).priority is Priority.HIGH
    assert desk.wait() == [41]
    (kept,) = desk.kept
    shown = kept.shown
    assert (shown.priority, shown.hard, shown.source_size) == (2, True, SIZE)
    assert (shown.encoding.width_px, shown.encoding.height_px, shown.encoding.quality) == (64, 48, 90)
    assert kept.age_us == 59 * SECOND


def test_while_the_encoder_is_busy_pictures_are_shed_and_counted(desk: Desk) -> None:
    desk.codec.gate.clear()
    for seq in range(1, 10):
        desk.give(answer(seq, ("car", 0.5)))
        if seq == 1:
            desk.codec.began.wait(10)
    desk.codec.gate.set()
    assert desk.wait() == [1, 2, 3, 4, 5]
    counts = desk.archivist.counts
    assert (counts.wanted, counts.kept, counts.shed) == (9, 5, 4)


def test_frames_around_an_event_are_kept_with_its_rank_and_are_not_hard(ring_desk: Desk) -> None:
    for seq in range(10, 20):
        record = answer(seq, ("car", 0.5 if seq == 15 else 0.9))
        ring_desk.give(record)
        ring_desk.wait()
    assert ring_desk.wait() == [13, 14, 15, 16]
    assert [(e.shown.priority, e.shown.hard) for e in ring_desk.kept] == [
        (2, False),
        (2, False),
        (2, True),
        (1, False),
    ]


def test_a_frame_answered_far_is_kept_if_it_lies_near_an_event(ring_desk: Desk) -> None:
    far = answer(14, ("car", 0.9), by=AnsweredBy.FAR)
    ring_desk.archivist.passed(far, frame(far))
    ring_desk.wait()
    ring_desk.give(answer(15, ("car", 0.5)))
    assert ring_desk.wait() == [14, 15]


def test_what_a_rule_wants_displaces_what_only_might_be_wanted(ring_desk: Desk) -> None:
    ring_desk.codec.gate.clear()
    for seq in range(1, 7):
        ring_desk.give(answer(seq, ("car", 0.9)))
        if seq == 1:
            ring_desk.codec.began.wait(10)
    ring_desk.give(answer(99, ("car", 0.5)))
    ring_desk.codec.gate.set()
    assert ring_desk.wait() == [99]


def test_a_picture_that_cannot_be_encoded_is_counted_and_said_once(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    desk.codec.fail = Rejected("JPEG carries 8 bits")
    for seq in (1, 2):
        desk.give(answer(seq, ("car", 0.5)))
        desk.wait()
    assert desk.archivist.counts.failed == 2
    assert [r.message for r in caplog.records] == [
        "stream door: pictures cannot be archived: JPEG carries 8 bits"
    ]
    desk.codec.fail = None
    desk.give(answer(3, ("car", 0.5)))
    assert desk.wait() == [3]


def test_what_waits_is_encoded_before_the_end(desk: Desk) -> None:
    desk.give(answer(1, ("car", 0.5)))
    desk.archivist.close(10.0)
    assert [entry.shown.key[2] for entry in desk.kept] == [1]
