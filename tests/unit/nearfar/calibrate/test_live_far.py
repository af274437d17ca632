"""A running worker as the far side: asked again when it is busy, given up in words when it is gone."""

from collections.abc import Callable, Sequence
from queue import SimpleQueue

import numpy as np
import pytest

from edge.links.base import Disconnected, LinkEvent, Received, Sent
from nearfar.calibrate import live_far
from nearfar.calibrate.live_far import TRIES, LiveFar
from pipelines.errors import ConfigError, Fatal, Rejected
from pipelines.frame import Encoding
from pipelines.result import Detections, Load, WorkerTiming
from protos.wire.live import FrameBody, FrameHead, Reject, Result
from protos.wire.session import Credit, Lane, Limits, ModelInfo, RejectReason, Welcome

MODEL = ModelInfo(name="people", sha256="a" * 64, labels=("person",), input_width_px=64, input_height_px=32)
WELCOME = Welcome(
    worker_run=b"r" * 16,
    store_id="s",
    models=(MODEL,),
    limits=Limits(message_bytes=2_000_000, picture_px=1, decompressed_bytes=1, batch_records=1),
    credit=Credit(frames=8, bytes=1 << 22),
)
JPEG = Encoding(codec="jpeg", quality=50, width_px=32, height_px=16)

Says = Callable[[FrameHead], Sequence[LinkEvent]]


class ScriptedLink:
    """Delivers what `says` makes of each frame; `sent` instead of taking it."""

    name = "lte"

    def __init__(self, says: Says, *, sent: Sent = Sent.ACCEPTED) -> None:
        self._says = says
        self._sent = sent
        self.events: SimpleQueue[LinkEvent] = SimpleQueue()
        self.heads: list[FrameHead] = []

    def send(self, head: FrameHead, body: FrameBody) -> Sent:
        assert body.seq == head.seq
        self.heads.append(head)
        if self._sent is Sent.ACCEPTED:
            for event in self._says(head):
                self.events.put(event)
        return self._sent


def far(link: ScriptedLink) -> LiveFar:
    return LiveFar(link, WELCOME, link.events)  # type: ignore[arg-type]


def received(message: Result | Reject) -> Received:
    return Received(Lane.LIVE, 1, message, arrived_us=0)


def result(seq: int, *, score: float = 0.9) -> Received:
    boxes = np.array([[0, 0, 8, 8]], np.float32)
    found = Detections(boxes, np.array([score], np.float32), np.zeros(1, np.uint16))
    timing = WorkerTiming(decode_us=300, detect_us=700, queue_us=9_000)
    return received(
        Result(
            stream=0,
            seq=seq,
            detections=found,
            model="people",
            model_sha256="a" * 64,
            timing=timing,
            load=Load(),
        )
    )


def reject(seq: int, reason: RejectReason) -> Received:
    return received(Reject(stream=0, seq=seq, reason=reason, text="because"))


def test_an_answer_has_the_models_labels_and_the_workers_own_time():
    link = ScriptedLink(lambda head: [result(head.seq)])
    answer = far(link).answer(b"x", JPEG, size_px=(64, 48))
    assert answer.detections.labels == ("person",)
    assert answer.run_us == 1_000
    assert (link.heads[0].source_width_px, link.heads[0].source_height_px) == (64, 48)


def test_the_reference_is_the_whole_picture_without_loss():
    link = ScriptedLink(lambda head: [result(head.seq)])
    far(link).best(np.zeros((48, 64, 3), np.uint8))
    assert (link.heads[0].encoding.codec, link.heads[0].encoding.width_px) == ("png", 64)


def test_an_answer_to_another_frame_is_none():
    link = ScriptedLink(lambda head: [result(head.seq - 1, score=0.1), result(head.seq)])
    assert far(link).answer(b"x", JPEG, size_px=(64, 48)).detections.scores[0] == pytest.approx(0.9)


def test_a_busy_worker_is_asked_again():
    link = ScriptedLink(
        lambda head: [reject(head.seq, RejectReason.QUEUE_FULL) if head.seq < 3 else result(head.seq)]
    )
    far(link).answer(b"x", JPEG, size_px=(64, 48))
    assert [head.seq for head in link.heads] == [1, 2, 3]


def test_a_worker_that_stays_busy_is_given_up():
    link = ScriptedLink(lambda head: [reject(head.seq, RejectReason.QUEUE_FULL)])
    with pytest.raises(Fatal, match="calibrate when it has less to do"):
        far(link).answer(b"x", JPEG, size_px=(64, 48))
    assert len(link.heads) == TRIES


def test_what_the_worker_refuses_for_good_is_not_tried_again():
    link = ScriptedLink(lambda head: [reject(head.seq, RejectReason.BAD_PAYLOAD)])
    with pytest.raises(Rejected, match="because"):
        far(link).answer(b"x", JPEG, size_px=(64, 48))
    assert len(link.heads) == 1
    drained = ScriptedLink(lambda head: [reject(head.seq, RejectReason.DRAINING)])
    with pytest.raises(Fatal, match="refuses the frame, draining: because"):
        far(drained).answer(b"x", JPEG, size_px=(64, 48))


def test_a_picture_above_the_workers_limit_is_said_with_both_ways_out():
    link = ScriptedLink(lambda _: [], sent=Sent.TOO_LARGE)
    with pytest.raises(ConfigError, match=r"limits\.message of 2\.0 MB; raise its limits, or .*--worker"):
        far(link).best(np.zeros((48, 64, 3), np.uint8))


@pytest.mark.parametrize("sent", [Sent.DOWN, Sent.FULL])
def test_a_frame_that_cannot_be_sent_ends_it(sent):
    with pytest.raises(Fatal, match=f"could not be sent \\({sent}\\)"):
        far(ScriptedLink(lambda _: [], sent=sent)).answer(b"x", JPEG, size_px=(64, 48))


def test_a_link_that_goes_down_ends_it_at_once():
    link = ScriptedLink(lambda _: [Disconnected(Lane.LIVE, 1, "the worker closed it")])
    with pytest.raises(Fatal, match="link lte: the worker closed it; nothing is written"):
        far(link).answer(b"x", JPEG, size_px=(64, 48))


def test_a_worker_that_hangs_is_not_waited_for_for_ever(monkeypatch):
    monkeypatch.setattr(live_far, "ANSWER_WITHIN_S", 0.05)
    with pytest.raises(Fatal, match=r"no answer within 0\.05 s"):
        far(ScriptedLink(lambda _: [])).answer(b"x", JPEG, size_px=(64, 48))
