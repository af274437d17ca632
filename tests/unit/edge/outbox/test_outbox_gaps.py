"""Frames without a record, as ranges, and how far a run is explained."""

from edge.outbox.gaps import GapRanges
from edge.outbox.marks import STEP, Marks, interrupted
from edge.outbox.store import Watermark
from pipelines.result import Gap, GapReason
from tests.support.outboxes import OLD_RUN, RUN


def ranges_of(*seqs: int, detail: str = "overload") -> list[tuple[int, int]]:
    ranges = GapRanges()
    for n, seq in enumerate(seqs):
        ranges.add(stream="door", seq=seq, reason=GapReason.SHED, detail=detail, now_us=n)
    return [(g.first, g.last) for g in ranges.peek(RUN)]


def test_neighbours_are_one_range() -> None:
    assert ranges_of(1, 2, 3, 7, 8) == [(1, 3), (7, 8)]


def test_any_order_and_repetition_give_the_same_ranges() -> None:
    assert ranges_of(8, 2, 3, 7, 2, 1) == [(1, 3), (7, 8)]


def test_reasons_and_streams_are_kept_apart() -> None:
    ranges = GapRanges()
    ranges.add(stream="door", seq=1, reason=GapReason.SHED, detail="overload", now_us=5)
    ranges.add(stream="door", seq=2, reason=GapReason.GATED, detail="", now_us=6)
    ranges.add(stream="yard", seq=3, reason=GapReason.SHED, detail="overload", now_us=7)
    assert (len(ranges), ranges.since_us) == (3, 5)
    ranges.clear()
    assert (len(ranges), ranges.since_us, ranges.peek(RUN)) == (0, None, [])


def test_reservations_stay_ahead_of_capture_and_are_rarely_written() -> None:
    marks = Marks(RUN)
    writes = 0
    for seq in range(1, 1001):
        marks.captured("door", seq)
        writes += marks.due
        marks.due = False
        assert marks.watermarks()[0].reserved >= seq
    assert writes <= 1000 // (STEP // 2) + 1


def test_a_frame_still_open_holds_the_watermark_back() -> None:
    marks = Marks(RUN)
    for seq in (1, 2, 4, 5):
        marks.explained("door", seq)
    assert marks.watermarks()[0].settled == 2
    marks.explained("door", 3)
    assert marks.watermarks()[0].settled == 5


def test_only_what_a_dead_run_left_open_is_interrupted() -> None:
    clean = Watermark(run=OLD_RUN, stream="yard", reserved=9, settled=9)
    killed = Watermark(run=OLD_RUN, stream="door", reserved=256, settled=100)
    assert interrupted([clean, killed]) == [
        Gap(run=OLD_RUN, stream="door", first=101, last=256, reason=GapReason.INTERRUPTED)
    ]
