"""The gatekeeper: who is turned away is reported, and a gate that breaks opens."""

import numpy as np

from edge.capture.gatekeeper import Gatekeeper
from edge.capture.publisher import Publisher
from edge.capture.slot import Slot
from pipelines.frame import Frame, Picture
from pipelines.gates.base import Verdict, Why


def frame(seq: int, picture: Picture) -> Frame:
    return Frame(
        stream="yard",
        seq=seq,
        picture=picture,
        captured_us=1_000_000,
        available_us=1_000_000,
        captured_unix_us=0,
    )


class Scripted:
    """Says what it was told to, and remembers when it was asked."""

    def __init__(self, *verdicts: Verdict | Exception) -> None:
        self.verdicts = list(verdicts)
        self.asked_us: list[int] = []

    @classmethod
    def from_config(cls, _config) -> "Scripted":
        return cls()

    def judge(self, _picture: Picture, now_us: int) -> Verdict:
        self.asked_us.append(now_us)
        verdict = self.verdicts.pop(0)
        if isinstance(verdict, Exception):
            raise verdict
        return verdict


STILL = Verdict(passes=False, why=Why.STILL)
MOTION = Verdict(passes=True, why=Why.MOTION)


def test_who_is_turned_away_is_reported_with_the_reason_and_without_its_pixels():
    reported: list[tuple[int, str, int]] = []
    keeper = Gatekeeper(
        Scripted(STILL, MOTION), gated=lambda f, why: reported.append((f.seq, why, f.picture.size))
    )
    picture = np.zeros((4, 4, 3), np.uint8)
    assert [keeper.turns_away(frame(seq, picture)) for seq in (1, 2)] == [True, False]
    assert reported == [(1, "still", 0)]


def test_a_gate_that_breaks_lets_every_frame_pass_and_says_so_once(caplog):
    caplog.set_level("WARNING")
    keeper = Gatekeeper(Scripted(*[RuntimeError("no such plane")] * 5, STILL), gated=lambda *_: None)
    picture = np.zeros((4, 4, 3), np.uint8)
    assert [keeper.turns_away(frame(seq, picture)) for seq in range(1, 7)] == [False] * 5 + [True]
    assert [r.message for r in caplog.records] == [
        "stream yard: its gate failed, frames pass it unjudged: RuntimeError: no such plane"
    ]


def test_a_film_read_at_another_pace_is_judged_in_its_own_time():
    gate = Scripted(*[STILL] * 3)
    keeper = Gatekeeper(gate, gated=lambda *_: None)
    keeper.filmed_at(25.0)
    for seq in (1, 2, 50):
        keeper.turns_away(frame(seq, np.zeros((4, 4, 3), np.uint8)))
    assert gate.asked_us == [40_000, 80_000, 2_000_000]


def test_a_frame_that_is_turned_away_is_captured_and_never_lies_in_the_slot():
    events: list[object] = []
    slot = Slot()
    keeper = Gatekeeper(Scripted(MOTION, STILL, MOTION), gated=lambda f, why: events.append((f.seq, why)))
    publisher = Publisher(
        stream="yard",
        slot=slot,
        latency_us=0,
        paced=True,
        offered=lambda _: events.append("offered"),
        overwritten=lambda f: events.append(f"overwritten {f.seq}"),
        stale=lambda f: events.append(f"stale {f.seq}"),
        captured=lambda _, seq: events.append(f"captured {seq}"),
        clock_us=lambda: 1_000_000,
        unix_us=lambda: 0,
        turned_away=keeper.turns_away,
    )
    picture = np.zeros((4, 4, 3), np.uint8)
    publisher.publish(picture)
    assert slot.take() is not None
    publisher.publish(picture)
    assert slot.peek() is None
    publisher.shed(picture)
    publisher.publish(picture)
    waiting = slot.take()
    assert waiting is not None
    assert waiting.seq == 4
    assert events == [
        *("captured 1", "offered"),
        *("captured 2", (2, "still")),
        *("captured 3", "stale 3"),
        *("captured 4", "offered"),
    ]
