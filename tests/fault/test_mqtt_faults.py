"""MQTT on a real broker: killed, frozen, closed to us; what was acknowledged is there, and the state of the agent is told."""

import re
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import paho.mqtt.client as mqtt
import pytest

from edge.sinks.delivery.courier import NotNowError
from edge.sinks.delivery.parcel import packed
from tests.support.answers import answer
from tests.support.broker import Broker, Subscriber
from tests.support.certificates import certificates
from tests.support.eventually import eventually
from tests.support.mqtt import courier
from tests.support.sinks import sink

pytestmark = pytest.mark.service("mosquitto")

# paho leaves the socket of a failed handshake to the garbage collector, which warns of it.
LEAKY_HANDSHAKE = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture
def broker(tmp_path):
    with Broker(tmp_path) as made:
        yield made


@pytest.fixture
def mqtt_sink(tmp_path):
    made = []

    def make(url, **settings):
        made.append(sink(tmp_path, kind="mqtt", url=url, **settings))
        return made[-1]

    yield make
    for one in made:
        one.close()


def _said_in(heard: Path, words: str) -> re.Match[str] | None:
    return re.search(words, heard.read_text())


def give(made, *seqs):
    for seq in seqs:
        made.write(answer(seq))
    made.flush()


def test_each_answer_is_a_message_at_the_topic_of_its_stream(broker, mqtt_sink):
    with Subscriber(broker) as reader:
        made = mqtt_sink(broker.url, topic="plant/{stream}/of/{agent}")
        give(made, 1, 2)
        eventually(lambda: reader.seqs == [1, 2], what="the answers")
        assert {topic for topic, message, _ in reader.heard if "seq" in message} == {"plant/door/of/gw"}


def test_the_agent_is_online_from_its_start_offline_at_its_end_and_whoever_comes_later_is_told(
    broker, mqtt_sink
):
    with Subscriber(broker) as early:
        made = mqtt_sink(broker.url, status_topic="states/{agent}")
        eventually(lambda: early.states == ["online"], what="online")
        with Subscriber(broker) as late:
            eventually(lambda: [(t, r) for t, _, r in late.heard] == [("states/gw", True)], what="the state")
        made.close()
        eventually(lambda: early.states == ["online", "offline"], what="offline")
        assert early.heard[-1][1] == {
            "agent": "gw",
            "run": bytes(16).hex(),
            "state": "offline",
            "reason": "stopped",
        }


CHILD = """
import sys
from pathlib import Path
from tests.support.eventually import eventually
from tests.support.sinks import sink
made = sink(Path(sys.argv[1]), kind="mqtt", url=sys.argv[2])
eventually(lambda: made.sight().post.failing, 30.0, "the broker's end, or ours")
"""


def test_an_agent_that_is_killed_is_offline_by_its_last_will(broker, tmp_path):
    with Subscriber(broker) as reader:
        child = subprocess.Popen([sys.executable, "-c", CHILD, str(tmp_path), broker.url])
        with child:
            eventually(lambda: reader.states == ["online"], 15.0, what="online")
            child.kill()
        eventually(lambda: reader.states == ["online", "offline"], what="the last will")
        assert reader.heard[-1][1]["reason"] == "connection lost"


@pytest.mark.parametrize("durable", [False, True])
def test_a_broker_that_is_killed_and_started_again_gets_everything_in_order(
    broker, mqtt_sink, durable, monkeypatch
):
    monkeypatch.setattr("edge.sinks.delivery.postman.MOST_WAIT_US", 200_000)
    monkeypatch.setattr("edge.sinks.delivery.postman.FIRST_WAIT_US", 50_000)
    made = mqtt_sink(broker.url, durable=durable)
    with Subscriber(broker) as before:
        give(made, 1, 2, 3)
        eventually(lambda: before.seqs == [1, 2, 3], what="the first answers")
    broker.kill()
    give(made, *range(4, 104))
    eventually(lambda: made.sight().post.failing, what="the loss")
    broker.start()
    with Subscriber(broker) as after:
        give(made, 104)
        eventually(lambda: 104 in after.seqs, 10.0, what="the last answer")
        # The first deliveries may have been before the subscriber: what it saw is in order and without a hole.
        assert after.seqs == list(range(after.seqs[0], 105))
    eventually(lambda: made.drained, what="the acknowledgements")
    seen = made.sight().spool
    assert (seen.delivered, seen.lost, seen.balance) == (104, 0, 0)


def test_a_broker_that_freezes_costs_nothing_but_its_timeout_and_nothing_is_lost(
    broker, mqtt_sink, monkeypatch
):
    monkeypatch.setattr("edge.sinks.delivery.postman.FIRST_WAIT_US", 50_000)
    made = mqtt_sink(broker.url, timeout="300ms")
    with Subscriber(broker) as reader:
        give(made, 1)
        eventually(lambda: reader.seqs == [1], what="the first answer")
        broker.freeze()
        give(made, 2, 3)
        eventually(lambda: "no acknowledgement within 0.3 s" in made.sight().post.failing, what="the timeout")
        broker.thaw()
        # At least once: the broker may have taken them before it froze, and takes them again.
        eventually(lambda: set(reader.seqs) == {1, 2, 3} and made.drained, 10.0, what="the answers")
    assert made.sight().spool.delivered == 3


def test_a_frozen_broker_does_not_hold_up_the_end(broker, tmp_path):
    made = sink(tmp_path, kind="mqtt", url=broker.url, timeout="30s")
    give(made, 1)
    eventually(lambda: made.drained, what="the first answer")
    broker.freeze()
    give(made, 2)
    made.close()
    assert made.sight().spool.abandoned == 1


def test_a_broker_that_is_not_there_is_said_and_waited_for(tmp_path, mqtt_sink):
    with Broker(tmp_path) as broker:
        url = broker.url
    made = mqtt_sink(url)
    give(made, 1)
    eventually(lambda: "cannot be reached: Connection refused" in made.sight().post.failing, what="the words")
    assert made.sight().words.startswith("1 answers wait: 127.0.0.1:")


def test_user_and_password_open_a_broker_that_asks_for_them_and_a_wrong_one_is_said(tmp_path):
    passwords = tmp_path / "passwords"
    passwords.touch()
    subprocess.run(["mosquitto_passwd", "-b", str(passwords), "gw", "open sesame"], check=True)
    secret = tmp_path / "secret"
    lines = ("allow_anonymous false", f"password_file {passwords}")
    with Broker(tmp_path, lines=lines) as broker:
        secret.write_text("wrong\n")
        made = courier(tmp_path, url=broker.url, user="gw", password_file=secret)
        with pytest.raises(NotNowError, match=r"(?i)not authorized|refuses") as told:
            made.tend()
        assert "wrong" not in str(told.value)
        secret.write_text("open sesame\n")  # mended: no restart
        assert made.tend()
        made.close()


@LEAKY_HANDSHAKE
@pytest.mark.service("openssl")
def test_over_tls_the_broker_is_known_by_its_certificate(tmp_path):
    ca, cert, key = certificates(tmp_path)
    key.chmod(0o644)
    lines = ("allow_anonymous true", f"cafile {ca}", f"certfile {cert}", f"keyfile {key}")
    with Broker(tmp_path, lines=lines) as broker:
        made = courier(tmp_path, url=f"mqtts://localhost:{broker.port}", tls={"ca": ca})
        assert made.tend()
        made.close()
        strange = courier(tmp_path, url=f"mqtts://localhost:{broker.port}")
        with pytest.raises(NotNowError, match=r"(?i)certificate"):
            strange.tend()


@LEAKY_HANDSHAKE
@pytest.mark.service("openssl")
def test_a_broker_that_wants_our_certificate_gets_it(tmp_path):
    ca, cert, key = certificates(tmp_path)
    key.chmod(0o644)
    lines = ("allow_anonymous true", f"cafile {ca}", f"certfile {cert}", f"keyfile {key}")
    with Broker(tmp_path, lines=(*lines, "require_certificate true")) as broker:
        url = f"mqtts://localhost:{broker.port}"
        made = courier(tmp_path, url=url, tls={"ca": ca, "cert": cert, "key": key})
        assert made.tend()
        made.close()
        with pytest.raises(NotNowError):
            courier(tmp_path, url=url, tls={"ca": ca}, timeout="2s").tend()


def test_its_client_id_and_keep_alive_are_what_the_file_says(tmp_path):
    heard = tmp_path / "broker.log"
    lines = ("allow_anonymous true", f"log_dest file {heard}", "log_type notice", "connection_messages true")
    with Broker(tmp_path, lines=lines) as broker:
        for settings in ({"client_id": "plant-7", "keep_alive": "20s"}, {}):
            made = courier(tmp_path, url=broker.url, **settings)
            assert made.tend()
            made.close()
        for words in (r" as plant-7 \(.*k20", r" as nearfar-gw-mqtt \(.*k15"):
            eventually(partial(_said_in, heard, words), what=words)


@pytest.mark.parametrize("trouble", [ValueError("no room"), RuntimeError("a bug"), OSError("gone")])
def test_a_farewell_that_fails_is_said_and_leaves_no_thread_and_no_connection(
    broker, tmp_path, monkeypatch, caplog, trouble
):
    with Subscriber(broker) as reader:
        made = courier(tmp_path, url=broker.url)
        assert made.tend()
        eventually(lambda: reader.states == ["online"], what="online")

        def broken(*_, **__):
            raise trouble

        monkeypatch.setattr(mqtt.Client, "publish", broken)
        made.close()
        monkeypatch.undo()
        assert str(trouble) in caplog.text
        eventually(lambda: reader.states == ["online", "offline"], what="the last will")
    assert not [thread for thread in threading.enumerate() if "paho" in thread.name]


def test_what_our_own_client_refuses_to_send_is_said_as_what_it_is(broker, tmp_path, monkeypatch):
    made = courier(tmp_path, url=broker.url)
    assert made.tend()

    def full(*_, **__):
        info = mqtt.MQTTMessageInfo(1)
        info.rc = mqtt.MQTT_ERR_QUEUE_SIZE
        return info

    monkeypatch.setattr(mqtt.Client, "publish", full)
    with pytest.raises(NotNowError, match="Message queue full"):
        made.deliver([packed(answer(1), number=1, born_us=0)])
    made.close()


def test_two_clients_with_one_id_are_told_so_and_do_not_throw_each_other_out_all_the_time(broker, tmp_path):
    first = courier(tmp_path, url=broker.url, client_id="twin")
    second = courier(tmp_path, url=broker.url, client_id="twin")
    assert first.tend()
    assert second.tend()

    def said():
        try:
            first.tend()
        except NotNowError as error:
            return str(error)
        return ""

    assert "another client with the id twin" in eventually(said, what="the first one's end")
    second.close()
    first.close()


@pytest.mark.parametrize("durable", [False, True])
def test_a_message_the_broker_hangs_up_at_is_given_up_and_those_behind_it_go_on(
    tmp_path, mqtt_sink, monkeypatch, durable
):
    monkeypatch.setattr("edge.sinks.delivery.postman.FIRST_WAIT_US", 1_000)
    with Broker(tmp_path, lines=("allow_anonymous true", "max_packet_size 3000")) as broker:
        with Subscriber(broker) as reader:
            made = mqtt_sink(broker.url, durable=durable)
            made.write(answer(1))
            made.write(answer(2, reason="x" * 4000))
            made.write(answer(3))
            made.flush()
            eventually(lambda: reader.seqs[-1:] == [3], within_s=20.0, what="the answer behind it")
            assert set(reader.seqs) == {1, 3}
        eventually(lambda: made.sight().spool.refused == {"went_away": 1}, what="the count")
