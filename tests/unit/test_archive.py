"""Which pictures are kept for later, around what, and what happens while the encoder is busy."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from edge.archive.archivist import Archivist
from edge.archive.assembly import build_archivist, rule_of
from edge.archive.ring import AroundRing
from edge.archive.rules import UplinkRules, Verdict
from edge.config import load_pipeline
from edge.config_warnings import warnings
from edge.outbox.payload import PayloadEntry
from edge.uplink_config import UplinkConfig
from pipelines.codecs.jpeg import JpegCodec
from pipelines.errors import ConfigError, Rejected
from pipelines.frame import Encoding, Frame, FrameId, Picture
from pipelines.result import AnsweredBy, Detections, Priority, Record, Status
from tests.support.eventually import eventually

SECOND = 1_000_000
SIZE = (64, 48)


def answer(
    seq: int, *boxes: tuple[str, float], by: AnsweredBy = AnsweredBy.NEAR, stream: str = "door"
) -> Record:
    labels = ("car", "person")
    seen = Detections(
        np.tile(np.array([[0, 0, 32, 24]], np.float32), (len(boxes), 1)),
        np.array([score for _, score in boxes], np.float32),
        np.array([labels.index(label) for label, _ in boxes], np.uint16),
        labels,
    )
    return Record(
        id=FrameId("gw", bytes(16), stream, seq),
        answered_by=by,
        status=Status.OK,
        detections=None if by is AnsweredBy.MISSED else seen,
    )


def rules(*written: dict[str, object]) -> UplinkRules:
    return UplinkRules([rule_of(rule) for rule in UplinkConfig.model_validate({"rules": written}).rules])


BOTH = ["result", "payload"]


# -- rules ------------------------------------------------------------------------------------------------


def test_the_first_rule_that_matches_counts() -> None:
    judged = rules(
        {"when": {"label": "person", "score_below": 0.6}, "send": BOTH, "priority": "high"},
        {"when": {"label": "person"}, "send": ["result"], "priority": "low"},
        {"send": BOTH},
    )
    assert judged.judge(answer(1, ("person", 0.5)), SIZE) == Verdict(
        payload=True, event=True, priority=Priority.HIGH
    )
    assert judged.judge(answer(2, ("person", 0.9)), SIZE) == Verdict(priority=Priority.LOW)
    assert judged.judge(answer(3, ("car", 0.9)), SIZE) == Verdict(payload=True)


def test_every_takes_the_first_of_so_many_that_match_by_stream() -> None:
    judged = rules({"when": {"label": "car"}, "every": 3, "send": BOTH}, {"send": ["result"]})
    taken = [judged.judge(answer(n, ("car", 0.9)), SIZE).payload for n in range(7)]
    assert taken == [True, False, False, True, False, False, True]
    assert judged.judge(answer(1, ("car", 0.9), stream="yard"), SIZE).payload
    assert not judged.judge(answer(8, ("person", 0.9)), SIZE).payload


def test_a_sample_is_no_event() -> None:
    assert not rules({"every": 2, "send": BOTH}).judge(answer(1), SIZE).event


def test_who_answered_can_be_asked_for_alone_and_with_what_was_seen() -> None:
    judged = rules(
        {"when": {"answered_by": ["missed"]}, "send": BOTH, "priority": "low"},
        {"when": {"answered_by": ["tracked"], "label": "car"}, "send": BOTH},
    )
    assert judged.judge(answer(1, by=AnsweredBy.MISSED), SIZE).payload
    assert not judged.judge(answer(2, ("car", 0.9)), SIZE).payload
    assert judged.judge(answer(3, ("car", 0.9), by=AnsweredBy.TRACKED), SIZE).payload
    assert not judged.judge(answer(4, by=AnsweredBy.TRACKED), SIZE).payload


def test_a_region_is_a_share_of_the_picture() -> None:
    judged = rules({"when": {"region": [0, 0, 0.5, 0.5]}, "send": BOTH})
    assert judged.judge(answer(1, ("car", 0.9)), SIZE).payload
    assert not judged.judge(answer(1, ("car", 0.9)), (20, 20)).payload


def test_rules_that_send_no_picture_and_rank_nothing_need_no_archivist() -> None:
    def built(**uplink: object) -> Archivist | None:
        config = UplinkConfig.model_validate(uplink)
        return build_archivist(config, None, keep=lambda _: None, clock_us=lambda: 0)

    assert built() is None
    assert built(rules=[{"send": ["result"], "priority": "low"}]) is not None


# -- ring -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Held:
    name: int
    bytes: int = 10


def ring(max_bytes: int = 1000) -> AroundRing[Held]:
    return AroundRing(before_us=2 * SECOND, after_us=SECOND, max_bytes=max_bytes)


def test_an_event_gets_what_was_just_before_it_and_what_comes_just_after() -> None:
    kept = ring()
    assert not any(kept.add("door", n * SECOND, Held(n)) for n in range(6))
    assert [h.name for h in kept.event("door", 5 * SECOND)] == [3, 4, 5]
    assert kept.add("door", 6 * SECOND, Held(6))
    assert not kept.add("door", 7 * SECOND, Held(7))


def test_a_frame_that_was_answered_late_still_lies_near_its_event() -> None:
    kept = ring()
    kept.event("door", 5 * SECOND)
    assert kept.add("door", 4 * SECOND, Held(4))
    assert not kept.add("door", 2 * SECOND, Held(2))


def test_events_of_one_stream_are_none_of_another() -> None:
    kept = ring()
    kept.add("yard", 5 * SECOND, Held(5))
    assert kept.event("door", 5 * SECOND) == []
    assert not kept.add("yard", 5 * SECOND, Held(6))


def test_nothing_is_given_out_twice() -> None:
    kept = ring()
    kept.add("door", SECOND, Held(1))
    assert len(kept.event("door", SECOND)) == 1
    assert kept.event("door", SECOND) == []


def test_the_ring_is_bounded_by_bytes_and_says_what_it_had_no_room_for() -> None:
    kept = ring(max_bytes=25)
    for n in range(5):
        kept.add(f"s{n % 2}", n * 1000, Held(n))
    assert kept.crowded == 3
    assert [h.name for s in ("s0", "s1") for h in kept.event(s, 5000)] == [4, 3]


# -- archivist --------------------------------------------------------------------------------------------


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


# -- configuration ----------------------------------------------------------------------------------------

PIPELINE = """\
version: 1
labels: [car, person]
streams: {door: {source: {kind: synthetic}}}
near: {detector: {kind: synthetic, labels: [car, person]}}
"""


def test_a_label_no_answer_shows_is_refused_with_the_nearest_one(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(PIPELINE + "uplink: {rules: [{when: {label: persn}, send: [result, payload]}]}\n")
    with pytest.raises(ConfigError, match=r"persn is none of `labels`.*did you mean person"):
        load_pipeline(path)


@pytest.mark.parametrize(
    ("uplink", "words"),
    [
        ("{rules: [{send: [result, payload]}]}", "there is no link: they fill the outbox"),
        ("{archive: {quality: 70}}", "no rule of uplink.rules sends one"),
    ],
)
def test_what_is_probably_not_meant_is_said(tmp_path: Path, uplink: str, words: str) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(PIPELINE + f"uplink: {uplink}\n")
    assert any(words in sentence for sentence in warnings(load_pipeline(path)))


def test_the_sketch_of_the_uplink_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(
        PIPELINE
        + """\
outbox: {on_full: coarsen, keep: {before: 2s, after: 2s}}
uplink:
  archive: {codec: jpeg, quality: 90}
  rules:
    - {when: {label: person, score_below: 0.6}, send: [result, payload], priority: high}
    - {every: 300, send: [result, payload], priority: low}
    - {send: [result]}
"""
    )
    config = load_pipeline(path)
    first, second, _ = map(rule_of, config.uplink.rules)
    assert first.seen is not None
    assert (first.seen.label, first.seen.score_below, first.payload) == ("person", 0.6, True)
    assert (second.every, second.priority) == (300, Priority.LOW)
