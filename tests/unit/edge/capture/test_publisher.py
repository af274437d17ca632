"""Every picture gets its seq before it can be lost, and what is lost never lies in the slot."""

import numpy as np
import pytest

from edge.capture.publisher import Publisher
from edge.capture.slot import Slot


class Desk:
    """Everything a publisher reports, in order."""

    def __init__(self):
        self.slot = Slot()
        self.events = []

    def publisher(self, *, latency_us=0, turned_away=None):
        return Publisher(
            stream="door",
            slot=self.slot,
            latency_us=latency_us,
            paced=True,
            offered=lambda stream: self.events.append(("offered", stream)),
            overwritten=lambda frame: self.events.append(("overwritten", frame.seq)),
            stale=lambda frame: self.events.append(("stale", frame.seq)),
            captured=lambda stream, seq: self.events.append(("captured", seq)),
            clock_us=lambda: 9_000_000,
            unix_us=lambda: 1_700_000_000_000_000,
            turned_away=turned_away,
        )


@pytest.fixture
def desk():
    return Desk()


def test_a_picture_too_old_to_be_answered_has_a_seq_and_never_lies_in_the_slot(desk):
    publisher = desk.publisher(latency_us=10_000)
    publisher.publish(np.zeros((2, 2, 3), np.uint8), age_us=5_000)
    publisher.shed(np.zeros((2, 2, 3), np.uint8), age_us=400_000)
    assert desk.events == [("captured", 1), ("offered", "door"), ("captured", 2), ("stale", 2)]
    frame = desk.slot.take()
    assert (frame.seq, frame.captured_us, frame.available_us) == (1, 8_985_000, 9_000_000)


def test_a_picture_its_gate_turns_away_has_a_seq_and_never_lies_in_the_slot(desk):
    publisher = desk.publisher(turned_away=lambda frame: frame.seq == 1)
    publisher.publish(np.zeros((2, 2, 3), np.uint8))
    publisher.publish(np.zeros((2, 2, 3), np.uint8))
    assert desk.events == [("captured", 1), ("captured", 2), ("offered", "door")]
    assert desk.slot.take().seq == 2
