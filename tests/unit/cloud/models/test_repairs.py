"""A model that cannot be built anew: said once and on the page of readiness, tried ever less often, and its return said."""

import logging
import threading
from pathlib import Path

import pytest

from cloud.models import repairs
from cloud.models.repairs import MOST_WAIT_S, Repairs
from pipelines.detectors.base import Detector
from pipelines.errors import ConfigError, Fatal, Retryable
from protos.wire.live import FrameBody, FrameHead, Reject
from tests.support.eventually import eventually
from tests.support.rigs import ENCODING, HELLO, Rig
from tests.support.workers import MODEL, GatedDetector, clock_us, service

GONE = ConfigError("models/person.onnx: no such file")


def test_the_wait_doubles_and_has_a_bound() -> None:
    made = Repairs("person", instances=1)
    waits = [made.failed(0, GONE) for _ in range(12)]
    assert waits[:4] == [0.2, 0.4, 0.8, 1.6]
    assert waits[-1] == MOST_WAIT_S
    made.mended(0)
    assert made.failed(0, GONE) == 0.2


def test_a_reason_is_said_once_for_all_instances_and_tries_and_its_end_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    made = Repairs("person", instances=3)
    for _ in range(20):
        for instance in range(3):
            made.failed(instance, GONE)
    assert caplog.text.count("cannot be rebuilt") == 1
    assert made.words == "model person cannot be rebuilt: models/person.onnx: no such file"
    for instance in range(3):
        made.failed(instance, Fatal("it has another checksum"))
    assert caplog.text.count("cannot be rebuilt") == 2
    made.mended(0)
    assert made.words == "2 of 3 instances of model person cannot be rebuilt: it has another checksum"
    assert "loaded again" not in caplog.text
    made.mended(1)
    made.mended(2)
    assert caplog.text.count("model person is loaded again") == 1
    assert made.words == ""


def test_instances_that_never_failed_say_nothing(caplog: pytest.LogCaptureFixture) -> None:
    made = Repairs("person", instances=2)
    made.mended(1)
    assert caplog.text == ""


class Breaking:
    """Detectors that break at their first run and, while `gone`, cannot be made."""

    def __init__(self) -> None:
        self.gone = False
        self.tries = 0

    def __call__(self) -> Detector:
        if self.gone:
            self.tries += 1
            raise GONE
        made = GatedDetector()
        made.fail = Fatal("it broke")
        return made


@pytest.mark.parametrize(("instances", "ready"), [(1, False), (2, True)])
def test_a_worker_says_on_its_pages_what_it_cannot_load_again(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    instances: int,
    ready: bool,
) -> None:
    monkeypatch.setattr(repairs, "FIRST_WAIT_S", 0.001)
    caplog.set_level(logging.WARNING, "cloud.models.repairs")
    build = Breaking()
    with service(tmp_path, build=build, instances=instances) as (made, store):
        rig = Rig(made, store, GatedDetector())
        rig.session.receive(HELLO, clock_us())
        build.gone = True
        rig.session.receive(
            FrameHead(stream=0, seq=1, worker_budget_us=5_000_000, sent_mono_us=0, encoding=ENCODING),
            clock_us(),
        )
        rig.session.receive(FrameBody(stream=0, seq=1, data=b"0123456789"), clock_us())
        rig.peer.wait(Reject)
        eventually(lambda: build.tries >= 5, what="some tries")
        words = "cannot be rebuilt: models/person.onnx: no such file"
        assert [reason.endswith(words) for reason in made.not_ready()] == ([] if ready else [True])
        assert [reason.endswith(words) for reason in made.degraded()] == ([True] if ready else [])
        assert caplog.text.count("cannot be rebuilt") == 1
        build.gone = False
        eventually(lambda: not made.not_ready() and not made.degraded(), what="the model again")
        assert f"model {MODEL} is loaded again" in caplog.text


def test_a_model_that_cannot_be_built_because_the_worker_stops_is_no_trouble(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "cloud.models.repairs")
    built: list[GatedDetector] = []
    building, ends = threading.Event(), threading.Event()

    def build() -> Detector:
        if built:
            building.set()
            assert ends.wait(10.0)
            raise Retryable("the engines are being stopped")
        built.append(GatedDetector())
        built[0].fail = Fatal("it broke")
        return built[0]

    with service(tmp_path, build=build) as (made, store):
        rig = Rig(made, store, GatedDetector())
        rig.session.receive(HELLO, clock_us())
        rig.session.receive(
            FrameHead(stream=0, seq=1, worker_budget_us=5_000_000, sent_mono_us=0, encoding=ENCODING),
            clock_us(),
        )
        rig.session.receive(FrameBody(stream=0, seq=1, data=b"0123456789"), clock_us())
        assert building.wait(10.0)
        made.stop(0.0)
        ends.set()
    assert "cannot be rebuilt" not in caplog.text
