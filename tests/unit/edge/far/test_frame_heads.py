"""What a head says about its frame: the size it was captured in, whatever its stream's Hello said."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from edge.far.accord import Accord
from edge.far.port import FarPort
from edge.flow.pending import Pending
from edge.flow.stream_port import StreamPort
from edge.links.base import Sent
from edge.scheduling.actions import SendFrame
from edge.scheduling.scheduler import Scheduler
from pipelines.frame import Encoding, Frame
from pipelines.result import Priority
from protos.wire.live import FrameHead
from tests.support.virtual import LINK, settings

NOW_US = 1_000_000


class Wire:
    name = LINK

    def __init__(self) -> None:
        self.heads: list[FrameHead] = []

    def send(self, *messages: Any) -> Sent:
        self.heads += [m for m in messages if isinstance(m, FrameHead)]
        return Sent.ACCEPTED


def frame(seq: int, size: tuple[int, int]) -> Frame:
    picture = np.zeros((size[1], size[0], 3), np.uint8)
    return Frame(stream="door", seq=seq, picture=picture, captured_us=1, available_us=1, captured_unix_us=1)


@pytest.mark.parametrize("size", [(1920, 1080), (640, 480)])
def test_a_head_states_the_size_its_own_frame_was_captured_in(size: tuple[int, int]) -> None:
    wire = Wire()
    around: Any = SimpleNamespace(offloaded=0, payload_bytes=0, current="another")
    pending = Pending(
        frame=frame(7, size),
        deadline_us=NOW_US,
        accepted_us=NOW_US,
        priority=Priority.HIGH,
        payload=b"x",
        encoding=Encoding(codec="jpeg", quality=50, width_px=320, height_px=240, body_bytes=1),
    )
    port = FarPort(
        link=wire,  # type: ignore[arg-type]
        scheduler=Scheduler(settings(), {}),
        accord=Accord(),
        bulk=around,
        outbox=around,
        desk=around,
        counters=around,
        streams=[StreamPort(name="door", index=0, slot=around, priority=Priority.NORMAL)],
        pending={("door", 7): pending},
        clock_us=lambda: NOW_US,
    )
    port.send(SendFrame(key=("door", 7), link=wire.name, worker_budget_us=50_000, probe=False, p=0.7))
    (head,) = wire.heads
    assert (head.source_width_px, head.source_height_px) == size
    assert head.priority is Priority.HIGH, "as it was when the frame was accepted"
    assert pending.p_on_time == 0.7
