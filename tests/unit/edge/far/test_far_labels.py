"""Results in the recipe's labels: mapped once, where they enter, and never by the thread that decides."""

from dataclasses import replace

import numpy as np

from edge.far.labels import FarLabels
from edge.links.base import Connected, LinkEvent, Received
from edge.near.runner import NearRun, NearRunner
from pipelines.labels import LabelSpace
from pipelines.result import Detections, Status
from pipelines.runtime import monotonic_us
from protos.wire.session import Lane, Pong
from tests.support.endpoints import WELCOME, result
from tests.support.eventually import eventually
from tests.support.workers import GatedDetector

SPACE = LabelSpace(("car", "object"), {"thing": "object"})
SEEN = Detections(
    np.array([[0, 0, 4, 4]], np.float32), np.array([0.9], np.float32), np.zeros(1, np.uint16), ("thing",)
)


def delivered(*events: LinkEvent, space: LabelSpace | None = SPACE) -> list[LinkEvent]:
    out: list[LinkEvent] = []
    labels = FarLabels(space, deliver=out.append)
    for event in events:
        labels.heard(event)
    return out


def received(detections: Detections) -> Received:
    return Received(Lane.LIVE, 1, replace(result(0, 1), detections=detections), 7)


def labels_of(event: LinkEvent) -> list[str]:
    assert isinstance(event, Received)
    found: Detections = getattr(event.message, "detections")  # noqa: B009 - one of several kinds of message
    return [found.labels[i] for i in found.class_ids]


def test_a_far_result_is_delivered_in_the_recipes_labels() -> None:
    (event,) = delivered(received(SEEN))
    assert labels_of(event) == ["object"]


def test_a_result_without_labels_has_those_the_welcome_named_for_its_model() -> None:
    bare = Detections(SEEN.boxes, SEEN.scores, SEEN.class_ids, ())
    _, event = delivered(Connected(Lane.LIVE, 1, WELCOME), received(bare))
    assert labels_of(event) == ["object"]
    _, event = delivered(Connected(Lane.LIVE, 1, WELCOME), received(bare), space=None)
    assert labels_of(event) == ["thing"]


def test_without_a_label_space_a_result_is_what_the_worker_said() -> None:
    (event,) = delivered(received(SEEN), space=None)
    assert labels_of(event) == ["thing"]


def test_whatever_is_no_result_passes_as_it_is() -> None:
    given: list[LinkEvent] = [
        Connected(Lane.BULK, 2, WELCOME),
        Received(Lane.LIVE, 1, Pong(nonce=1, arrived_mono_us=0, resident_us=0), 7),
    ]
    assert delivered(*given) == given


def test_near_results_leave_the_near_thread_in_the_recipes_labels() -> None:
    done: list[NearRun] = []
    runner = NearRunner(GatedDetector(), labels=SPACE, done=done.append, clock_us=monotonic_us)
    runner.start()
    runner.submit(("door", 1), np.zeros((8, 8, 3), np.uint8))
    eventually(lambda: len(done) == 1, what="the run")
    runner.close()
    (run,) = done
    assert run.status is Status.OK
    assert run.detections is not None
    assert run.detections.labels == ("car", "object")
    assert run.detections.class_ids.tolist() == [1]
