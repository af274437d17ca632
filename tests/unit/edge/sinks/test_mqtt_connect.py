"""Connecting to a broker takes no longer than its timeout, whatever it is that takes so long."""

import threading
from collections.abc import Iterator
from pathlib import Path

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from edge.sinks.delivery.courier import NeverError, NotNowError
from edge.sinks.delivery.parcel import packed
from pipelines.frame import FrameId
from pipelines.runtime import monotonic_us
from tests.support.answers import answer
from tests.support.eventually import eventually
from tests.support.mqtt import courier

TIMEOUT_S = 0.2


class Slow:
    """What a name that resolves slowly, or a host of many dead addresses, does to who connects."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.attempts = 0

    def __call__(self, *_: object) -> None:
        self.attempts += 1
        self.go.wait(10.0)
        raise OSError("no route")


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Slow]:
    made = Slow()
    monkeypatch.setattr(mqtt.Client, "connect", made)
    yield made
    made.go.set()
    eventually(lambda: not dials(), what="the end of the dial")


def dials() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "dial"]


def test_a_connection_that_takes_for_ever_is_given_up_in_time_and_attempts_do_not_pile_up(
    tmp_path: Path, slow: Slow
) -> None:
    made = courier(tmp_path, url="mqtt://broker.example", timeout=f"{TIMEOUT_S}s")
    for _ in range(3):
        begun_us = monotonic_us()
        with pytest.raises(
            NotNowError, match=r"broker.example:1883 cannot be reached: no connection within 0.2 s"
        ):
            made.tend()
        assert monotonic_us() - begun_us < 5_000_000, "half of what the connection would have taken"
    assert (slow.attempts, len(dials())) == (1, 1)
    slow.go.set()
    eventually(lambda: not dials(), what="the end of the dial")
    with pytest.raises(NotNowError, match="cannot be reached: no route"):
        made.tend()
    assert slow.attempts == 2
    made.close()


def test_the_end_waits_for_no_connection(tmp_path: Path, slow: Slow) -> None:
    made = courier(tmp_path, url="mqtt://broker.example", timeout="60s")
    said: list[Exception] = []

    def tend() -> None:
        try:
            made.tend()
        except NotNowError as error:
            said.append(error)

    thread = threading.Thread(target=tend)
    thread.start()
    eventually(lambda: slow.attempts == 1, what="the attempt")
    made.interrupt()
    thread.join(5.0)
    assert list(map(str, said)) == ["broker.example:1883 cannot be reached: interrupted"]
    made.close()


def test_a_stream_whose_name_is_no_topic_costs_its_answers_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = courier(tmp_path, url="mqtt://broker.example", topic="plant/{stream}")
    monkeypatch.setattr(made, "_connected", lambda: mqtt.Client(CallbackAPIVersion.VERSION2))
    odd = answer(1, id=FrameId("gw", bytes(16), "a+b", 1))
    with pytest.raises(NeverError, match="no topic 'plant/a\\+b'; rename the stream") as caught:
        made.deliver([packed(odd, number=1, born_us=0)])
    assert caught.value.reason == "bad_topic"
